#include "crypto/certificate.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace pawl {
namespace {

namespace fs = std::filesystem;

// openssl req -x509 -newkey ed25519 -noenc -subj /CN=localhost -days 36500
constexpr const char* certificate = R"(-----BEGIN CERTIFICATE-----
MIIBPjCB8aADAgECAhRveVMsespD3DHoF2+tkv1RdYnFjzAFBgMrZXAwFDESMBAG
A1UEAwwJbG9jYWxob3N0MCAXDTI2MTExOTIzMTU1OVoYDzIxMjYxMDI2MjMxNTU5
WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwKjAFBgMrZXADIQAjxKJFckM/atlgx6Fb
CvEMJIKr2WSPKON/xduEfofjcKNTMFEwHQYDVR0OBBYEFIeUBRX5KcJfI+7qQDGu
Q4ZgP8vNMB8GA1UdIwQYMBaAFIeUBRX5KcJfI+7qQDGuQ4ZgP8vNMA8GA1UdEwEB
/wQFMAMBAf8wBQYDK2VwA0EA2gmDkqa12ci9pn14bwJutFY5u6Yvq5OPe8BAdaOt
xCpKNtEBnohMYI5aQyviuaLIibXbj+yo4fEH3MjMaC23DA==
-----END CERTIFICATE-----
)";

class CertificateTest : public testing::Test {
 protected:
  CertificateTest() {
    std::string name = (fs::temp_directory_path() / "pawl-certificate-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~CertificateTest() override { fs::remove_all(folder_); }

  std::string pin_of(const std::string& text) const {
    std::ofstream(folder_ / "certificate.pem") << text;
    return public_key_pin(folder_ / "certificate.pem");
  }

  fs::path folder_;
};

TEST_F(CertificateTest, its_pin_is_the_hash_of_its_public_key) {
  // openssl x509 -pubkey -noout | openssl pkey -pubin -outform DER | openssl dgst -sha256 -binary | base64
  EXPECT_EQ(pin_of(certificate), "sha256//et7bdDIQmzAKS7UB3lWwEs05uz4Z3B8B/D0rrnAyxng=");
}

TEST_F(CertificateTest, there_is_no_pin_of_what_is_not_a_certificate) {
  EXPECT_EQ(pin_of(""), "");
  EXPECT_EQ(pin_of("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"), "");
  EXPECT_EQ(public_key_pin(folder_ / "missing.pem"), "");
}

}  // namespace
}  // namespace pawl
