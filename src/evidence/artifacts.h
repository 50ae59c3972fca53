// Where finished bundles are put: a folder, or an S3 bucket. Putting the same name again replaces what was there.
#pragma once

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "aws/access.h"

namespace pawl {

class ArtifactFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Artifacts {
 public:
  virtual ~Artifacts() = default;
  // Durable when it returns. `name` is a path below the store's own: "<tenant>/<run>.zip". Gives where it is.
  virtual std::string put(const std::string& name, std::string_view bytes) = 0;
};

// For its owner only; each file is whole or not there.
std::unique_ptr<Artifacts> make_folder_artifacts(std::filesystem::path folder);

struct S3Options {
  std::string bucket;
  std::string prefix;    // without slashes at its ends; may be empty
  std::string endpoint;  // empty: Amazon's own; otherwise the bucket is the first part of the path
  AwsAccess access;
};
// Of an address s3://bucket/prefix. Credentials, region and endpoint that are not given come from where AWS's own tools
// look: (aws/access.h). Throws ArtifactFailure that says what is missing.
S3Options find_s3_options(std::string_view address, const std::string& endpoint);
std::unique_ptr<Artifacts> make_s3_artifacts(S3Options options);

// By what the setting says: s3://..., a folder, or, when it is empty, this one.
std::unique_ptr<Artifacts> make_artifacts(const std::string& setting, const std::string& endpoint,
                                          const std::filesystem::path& usual_folder);

}  // namespace pawl
