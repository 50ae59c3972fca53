// What the OpenAPI document says of evidence.
#include "api/openapi_parts.h"

namespace pawl::api::openapi {

std::vector<ObjectDoc> evidence_objects() {
  return {
      {"Checkpoint",
       "The heads of all of a tenant's streams at one moment, signed; docs/evidence.md says what the signature is "
       "over.",
       {{"tenant", "TenantId", ""},
        {"number", "1..", "From 1 without gaps."},
        {"size", "1..", "Entries in the log that it stands for."},
        {"root", "Hash", "Of the Merkle tree over them (RFC 6962)."},
        {"previous", "Hash", "SHA-256 of the statement of the one before; zeros for the first."},
        {"made_at", "Time", ""},
        {"key", "text", "The id of the key that signed it: `ed25519:` and its fingerprint."},
        {"signature", "text", "Ed25519, hex."}}},
      {"CheckpointPage",
       "",
       {{"items", "[Checkpoint]", "Newest first."},
        {"next_cursor", "text?", "For the next page; null on the last one."}}},
      {"AuditEntry",
       "An event of the tenant's own stream.",
       {{"seq", "1..", "Its place in the stream, from 1 without gaps."},
        {"at", "Time", ""},
        {"by", "text", "Who did it: `key:...`, `slack:...`, `engine`, a person at the folder; may be empty."},
        {"type", "text", "For example `key.created`, `policy.published`, `transition.refused`, `bundle.stored`."},
        {"hash", "Hash", "SHA-256 of `previous_hash` and the event's canonical JSON."},
        {"previous_hash", "Hash", "The hash of the event before."},
        {"event", "map", "The event as the journal has it."}}},
      {"AuditPage",
       "",
       {{"items", "[AuditEntry]", "Newest first."},
        {"next_cursor", "text?",
         "For the next page; null on the last one. One look reads a bounded part of the stream: with a filter, a page "
         "may be short and not the last."}}},
      {"SigningKey",
       "",
       {{"id", "text", "`ed25519:` and the SHA-256 of the public key."},
        {"public_key", "Hash", "32 bytes, hex."},
        {"previous", "text?", "The key before; null for the first."},
        {"signature", "text?", "Of the key before, over this one."},
        {"from", "Time", ""},
        {"until", "Time?", "Null while it signs."}}},
      {"SigningKeyPage",
       "",
       {{"items", "[SigningKey]", "Oldest first; the last one signs."}, {"next_cursor", "text?", "Always null."}}},
      {"ConsistencyProof",
       "That the log of the older checkpoint is the beginning of the newer one's.",
       {{"older", "Checkpoint", ""},
        {"newer", "Checkpoint", ""},
        {"path", "[Hash]", "As RFC 6962 has it."},
        {"keys", "[SigningKey]", ""}}},
  };
}

std::vector<RouteDoc> evidence_route_docs() {
  using enum Method;
  const Field run_id{"id", "RunId", ""};
  return {
      {.method = get,
       .pattern = "/runs/{id}/evidence",
       .operation_id = "get_evidence",
       .tag = "evidence",
       .says =
           "A zip with the run's events, what was decided about it and by whom, its receipts and costs, a signed "
           "checkpoint that covers it, and a signature over all of it. `pawl verify bundle.zip --key KEY` checks it "
           "without a server. The same run in the same state gives the same bytes.",
       .path = {run_id},
       .query = {{"partial", "flag", "Also of a run that has not ended."}},
       .answers = {{200, "The bundle.", {{"Archive", "Archive", "application/zip"}}}},
       .problems = {"NOT_FOUND", "RUN_NOT_ENDED", "SIGNING_KEY_LOST"}},
      {.method = get,
       .pattern = "/checkpoints",
       .operation_id = "list_checkpoints",
       .tag = "evidence",
       .says = "",
       .query = {{"limit", "1..500", "50 unless told."}, {"cursor", "text", "Where the page before ended."}},
       .answers = {{200, "A page of them.", {{"CheckpointPage"}}}}},
      {.method = post,
       .pattern = "/checkpoints",
       .operation_id = "make_checkpoint",
       .tag = "evidence",
       .says = "The server makes them by itself; this does not wait for the next.",
       .answers = {{201, "A new one.", {{"Checkpoint"}}},
                   {200, "The latest: nothing has changed since.", {{"Checkpoint"}}}},
       .problems = {"NOT_FOUND", "SIGNING_KEY_LOST"}},
      {.method = get,
       .pattern = "/checkpoints/consistency",
       .operation_id = "prove_consistency",
       .tag = "evidence",
       .says = "For whoever holds an older checkpoint. `pawl verify proof.json --key KEY` checks it.",
       .query = {{"from", "1..", "The number of the older one."},
                 {"to", "1..", "Of the newer one; the latest unless told."}},
       .answers = {{200, "The proof.", {{"ConsistencyProof"}}}},
       .problems = {"NOT_FOUND", "SIGNING_KEY_LOST"}},
      {.method = get,
       .pattern = "/audit",
       .operation_id = "list_audit",
       .tag = "evidence",
       .says = "The tenant's own stream: keys, people, policies, workflows, limits, webhooks, refused requests on runs "
               "that have ended, checkpoints and stored bundles. The events of a run are in `GET /runs/{id}/events`.",
       .query = {{"actor", "text", "Only what this one did: as `by` has it, or the id of a key."},
                 {"type", "text",
                  "Only this type, or with `.*` at its end all that begin so; with `!` before it all others. Several "
                  "have commas between them."},
                 {"object", "text",
                  "Only what names this run, workflow, workspace, key, person, account, group, webhook or connector."},
                 {"since", "Time", "Only what happened then or later."},
                 {"until", "Time", "Only what happened before."},
                 {"limit", "1..500", "50 unless told."},
                 {"cursor", "text", "Where the page before ended."}},
       .answers = {{200, "A page of it.", {{"AuditPage"}}}}},
      {.method = get,
       .pattern = "/signing-keys",
       .operation_id = "list_signing_keys",
       .tag = "evidence",
       .says = "",
       .answers = {{200, "All that ever signed here.", {{"SigningKeyPage"}}}},
       .problems = {"SIGNING_KEY_LOST"}},
      {.method = post,
       .pattern = "/signing-keys/rotate",
       .operation_id = "rotate_signing_key",
       .tag = "evidence",
       .says = "The new key is signed by the old one, and journaled for every tenant.",
       .answers = {{201, "The new key.", {{"SigningKey"}}}},
       .problems = {"SIGNING_KEY_LOST"}},
  };
}

std::vector<ExampleDoc> evidence_examples() {
  return {
      {"Archive", R"("PK...")"},
      {"Checkpoint",
       R"({
  "tenant": "ten_01m7hm5hw5e0d8m8rzs2x9qyf1", "number": 1, "size": 2,
  "root": "4f1a8a6d3c3d0a8e1f5a9c8c7c0f5b1f2a3d4e5f60718293a4b5c6d7e8f90a1b",
  "previous": "0000000000000000000000000000000000000000000000000000000000000000",
  "made_at": "2026-11-16T07:29:28.681Z",
  "key": "ed25519:8d29a1b1eb9a13fec1dd1459cdfd0f004f04498644d533f268837dd4c63f4565",
  "signature": "00aa"
})"},
      {"CheckpointPage", R"({"items": [], "next_cursor": null})"},
      {"AuditPage",
       R"({
  "items": [
    {
      "seq": 2, "at": "2026-11-16T07:29:28.681Z", "by": "engine", "type": "workspace.set",
      "hash": "4f1a8a6d3c3d0a8e1f5a9c8c7c0f5b1f2a3d4e5f60718293a4b5c6d7e8f90a1b",
      "previous_hash": "0000000000000000000000000000000000000000000000000000000000000000",
      "event": {"at": 1794814168681, "by": "engine", "type": "workspace.set", "weight": 2, "workspace": "billing"}
    }
  ],
  "next_cursor": null
})"},
      {"SigningKey",
       R"({
  "id": "ed25519:8d29a1b1eb9a13fec1dd1459cdfd0f004f04498644d533f268837dd4c63f4565",
  "public_key": "4f1a8a6d3c3d0a8e1f5a9c8c7c0f5b1f2a3d4e5f60718293a4b5c6d7e8f90a1b",
  "previous": null, "signature": null, "from": "2026-11-16T07:29:28.681Z", "until": null
})"},
      {"SigningKeyPage", R"({"items": [], "next_cursor": null})"},
      {"ConsistencyProof",
       R"({
  "older": {
    "tenant": "ten_01m7hm5hw5e0d8m8rzs2x9qyf1", "number": 1, "size": 2,
    "root": "4f1a8a6d3c3d0a8e1f5a9c8c7c0f5b1f2a3d4e5f60718293a4b5c6d7e8f90a1b",
    "previous": "0000000000000000000000000000000000000000000000000000000000000000",
    "made_at": "2026-11-16T07:29:28.681Z",
    "key": "ed25519:8d29a1b1eb9a13fec1dd1459cdfd0f004f04498644d533f268837dd4c63f4565", "signature": "00aa"
  },
  "newer": {
    "tenant": "ten_01m7hm5hw5e0d8m8rzs2x9qyf1", "number": 1, "size": 2,
    "root": "4f1a8a6d3c3d0a8e1f5a9c8c7c0f5b1f2a3d4e5f60718293a4b5c6d7e8f90a1b",
    "previous": "0000000000000000000000000000000000000000000000000000000000000000",
    "made_at": "2026-11-16T07:29:28.681Z",
    "key": "ed25519:8d29a1b1eb9a13fec1dd1459cdfd0f004f04498644d533f268837dd4c63f4565", "signature": "00aa"
  },
  "path": [], "keys": []
})"},
  };
}

}  // namespace pawl::api::openapi
