// Why a report on a lease counts.
//
// A remote worker shows the token that it was given when it took the lease, through the API key that took it; the
// journal holds only the token's digest. A worker in this process shows the number of its claim. A program that such a
// worker runs (an agent) shows the lease key that pawl signed for it, which names that number too; it may ask, propose,
// and record the outcome of what it proposed itself.
//
// The number grows with every claim and fences earlier attempts off. It is no secret and no credential: a request from
// outside becomes a proof of kind `remote`, which holds none.
#pragma once

#include <cstdint>
#include <optional>

#include "core/chain.h"
#include "core/id.h"

namespace pawl {

// Who holds the lease of a step, when it is not a worker in this process.
struct RemoteHolder {
  KeyId key;          // that took the lease
  Hash token_digest;  // sha256 of the token's text

  friend bool operator==(const RemoteHolder&, const RemoteHolder&) = default;
};

class LeaseProof {
 public:
  enum class Bearer { local, program, remote };

  static LeaseProof local(std::uint64_t number) { return {Bearer::local, number, {}}; }
  static LeaseProof program(std::uint64_t number) { return {Bearer::program, number, {}}; }
  static LeaseProof remote(RemoteHolder holder) { return {Bearer::remote, 0, holder}; }

  Bearer bearer() const { return bearer_; }
  bool is_program() const { return bearer_ == Bearer::program; }
  std::uint64_t number() const { return number_; }        // local and program
  const RemoteHolder& holder() const { return holder_; }  // remote

  friend bool operator==(const LeaseProof&, const LeaseProof&) = default;

 private:
  LeaseProof(Bearer bearer, std::uint64_t number, RemoteHolder holder)
      : bearer_(bearer), number_(number), holder_(holder) {}

  Bearer bearer_;
  std::uint64_t number_;
  RemoteHolder holder_;
};

}  // namespace pawl
