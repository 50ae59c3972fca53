#include <algorithm>

#include "core/bytes.h"
#include "crypto/sha256.h"
#include "store/store.h"

namespace pawl {

Hash genesis(StreamKey key) {
  return stream_genesis(sha256, key.tenant, key.is_tenant() ? key.tenant.str() : RunId{key.stream}.str());
}

void append_part(std::string& parts, const StreamPart& part) {
  ByteWriter out(parts);
  out.id(part.key.tenant.bits);
  out.id(part.key.stream);
  out.u64(part.first_seq);
  out.text(part.lines);
}

StreamPart take_part(std::string_view& parts) {
  ByteReader in(parts);
  StreamPart part;
  part.key.tenant.bits = in.id();
  part.key.stream = in.id();
  part.first_seq = in.u64();
  part.lines = in.text();
  if (in.bad()) throw StoreFailure("a journal frame is damaged");
  parts = in.rest();
  return part;
}

void for_each_part(std::string_view parts, const std::function<void(const StreamPart&)>& visit) {
  while (!parts.empty()) visit(take_part(parts));
}

}  // namespace pawl
