#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "http/client.h"

namespace pawl::http {
namespace {

namespace fs = std::filesystem;

struct File {
  explicit File(const fs::path& path) : file(std::fopen(path.c_str(), "w")) {}
  ~File() { std::fclose(file); }
  std::FILE* file;
};

// A key, and a certificate that it signed itself.
void make_certificate(const fs::path& certificate, const fs::path& key, EVP_PKEY* pair = EVP_EC_gen("P-256")) {
  X509* x509 = X509_new();
  X509_set_version(x509, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(x509), 1);
  X509_gmtime_adj(X509_getm_notBefore(x509), 0);
  X509_gmtime_adj(X509_getm_notAfter(x509), 3600);
  X509_set_pubkey(x509, pair);
  auto* name = X509_get_subject_name(x509);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("here"), -1, -1, 0);
  X509_set_issuer_name(x509, name);
  X509_sign(x509, pair, EVP_sha256());
  PEM_write_X509(File(certificate).file, x509);
  PEM_write_PrivateKey(File(key).file, pair, nullptr, nullptr, 0, nullptr, nullptr);
  X509_free(x509);
  EVP_PKEY_free(pair);
}

class Tls : public ServerTest {
 protected:
  Tls() {
    std::string name = (fs::temp_directory_path() / "pawl-tls-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    make_certificate(folder_ / "certificate.pem", folder_ / "key.pem");
    options.tls = ServerOptions::Tls{.certificate = folder_ / "certificate.pem", .key = folder_ / "key.pem"};
  }
  ~Tls() override {
    server_.reset();
    fs::remove_all(folder_);
  }

  std::string failure() {
    try {
      Server server(options, handler);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "none";
  }

  fs::path folder_;
};

// A connection with TLS on a client's socket.
class TlsClient {
 public:
  explicit TlsClient(std::uint16_t port, int version_max = TLS1_3_VERSION, const char* ciphers = "ALL")
      : client_(port), context_(SSL_CTX_new(TLS_client_method())) {
    SSL_CTX_set_security_level(context_, 0);
    SSL_CTX_set_min_proto_version(context_, TLS1_VERSION);
    SSL_CTX_set_max_proto_version(context_, version_max);
    SSL_CTX_set_cipher_list(context_, ciphers);
    ssl_ = SSL_new(context_);
    SSL_set_fd(ssl_, client_.socket());
    connected_ = SSL_connect(ssl_) == 1;
  }
  ~TlsClient() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;

  bool connected() const { return connected_; }
  void send(std::string_view text) { SSL_write(ssl_, text.data(), static_cast<int>(text.size())); }
  std::string until(std::string_view text) {
    std::string all;
    char c = 0;
    while (!all.ends_with(text) && SSL_read(ssl_, &c, 1) == 1) all += c;
    return all;
  }
  // Whether the server said that this is the end, so that nobody can have cut it off.
  bool ended_properly() {
    char c = 0;
    const int result = SSL_read(ssl_, &c, 1);
    return SSL_get_error(ssl_, result) == SSL_ERROR_ZERO_RETURN;
  }

 private:
  Client client_;
  SSL_CTX* context_;
  SSL* ssl_ = nullptr;
  bool connected_ = false;
};

TEST_F(Tls, carries_requests_and_large_bodies) {
  start();
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsClient client(port(), version);
    ASSERT_TRUE(client.connected());
    client.send(get("/1") + get("/2"));
    EXPECT_TRUE(client.until("/1||").ends_with("\r\n\r\n/1||"));
    EXPECT_TRUE(client.until("/2||").ends_with("\r\n\r\n/2||"));
    client.send(post("/", std::string(200'000, 'x') + "end"));
    EXPECT_GT(client.until("end").size(), 200'000u);
    client.send(get("/3", "Connection: close\r\n"));
    EXPECT_TRUE(client.until("/3||").ends_with("/3||"));
    EXPECT_TRUE(client.ended_properly());
  }
}

TEST_F(Tls, is_not_older_than_1_2) {
  start();
  EXPECT_FALSE(TlsClient(port(), TLS1_1_VERSION).connected());
}

TEST_F(Tls, of_1_2_has_forward_secrecy_and_authenticated_encryption) {
  make_certificate(options.tls->certificate, options.tls->key, EVP_RSA_gen(2048));
  start();
  for (const char* good : {"ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-CHACHA20-POLY1305"})
    EXPECT_TRUE(TlsClient(port(), TLS1_2_VERSION, good).connected()) << good;
  for (const char* bad : {"AES128-GCM-SHA256", "AES256-GCM-SHA384", "AES128-SHA", "AES256-SHA256", "DHE+AES",
                          "ECDHE-RSA-AES128-SHA256", "ECDHE-RSA-AES128-SHA", "aNULL", "PSK"})
    EXPECT_FALSE(TlsClient(port(), TLS1_2_VERSION, bad).connected()) << bad;
  EXPECT_TRUE(TlsClient(port(), TLS1_3_VERSION).connected());
}

TEST_F(Tls, handshakes_that_do_not_come_leave_room_for_those_that_do) {
  options.header_timeout = hang_limit;
  options.unknown_connections_max = 4;
  start();
  std::vector<std::unique_ptr<Client>> silent;
  for (int i = 0; i < 20; ++i) {
    silent.push_back(std::make_unique<Client>(port()));
    silent.back()->send("\x16\x03\x01");
    TlsClient client(port());
    ASSERT_TRUE(client.connected());
    client.send(get("/", "Connection: close\r\n"));
    EXPECT_TRUE(client.until("|").starts_with("HTTP/1.1 200 "));
  }
  EXPECT_GE(server_->counts().disconnected, 15u);
}

TEST_F(Tls, carries_channels) {
  std::shared_ptr<Channel> channel;
  std::mutex mutex;
  handler.handling = [&](Request, Responder respond) {
    respond({.stream = [&](std::shared_ptr<Channel> opened) {
      std::lock_guard lock(mutex);
      channel = std::move(opened);
    }});
  };
  start();
  {
    TlsClient client(port());
    client.send(get("/"));
    client.until("\r\n\r\n");
    ASSERT_TRUE(eventually([&] {
      std::lock_guard lock(mutex);
      return channel != nullptr;
    }));
    channel->push(std::make_shared<const Channel::Message>(Channel::Message{.id = "1", .data = "x"}));
    EXPECT_EQ(client.until("\n\n"), "id: 1\ndata: x\n\n");
    channel.reset();
    EXPECT_TRUE(client.ended_properly());
  }
  EXPECT_TRUE(eventually([&] { return server_->counts().open == 0; }));
}

TEST_F(Tls, refuses_with_the_same_words) {
  options.body_bytes_max = 10;
  options.connections_max = 1;
  start();
  TlsClient client(port());
  client.send(get("/"));
  client.until("/||");
  TlsClient second(port());
  second.send(get("/"));
  EXPECT_TRUE(second.until("TOO_MANY_CONNECTIONS").starts_with("HTTP/1.1 503 "));
  client.send(post("/", std::string(100'000, 'x')));
  EXPECT_TRUE(client.until("BODY_TOO_LARGE").starts_with("HTTP/1.1 413 "));
}

TEST_F(Tls, gives_up_a_handshake_that_does_not_come) {
  options.header_timeout = 60ms;
  start();
  Client silent(port());
  EXPECT_EQ(silent.rest(), "");
  Client plain(port());
  plain.send(get("/"));
  EXPECT_FALSE(plain.rest().starts_with("HTTP"));
  EXPECT_TRUE(eventually([&] { return server_->counts().open == 0; }));
}

TEST_F(Tls, says_which_file_is_wrong_and_why) {
  const auto certificate = options.tls->certificate;
  options.tls->certificate = folder_ / "none.pem";
  EXPECT_EQ(failure(),
            "cannot use the TLS certificate " + (folder_ / "none.pem").string() + ": No such file or directory");
  options.tls->certificate = certificate;

  const auto wrong = folder_ / "wrong.pem";
  options.tls->key = wrong;
  std::ofstream(wrong) << "";
  EXPECT_EQ(failure(), "cannot use the TLS key " + wrong.string() + ": it is empty");
  std::ofstream(wrong) << "not a key\n";
  EXPECT_TRUE(failure().starts_with("cannot use the TLS key " + wrong.string() + ": ")) << failure();
  make_certificate(folder_ / "other.pem", wrong);
  EXPECT_NE(failure().find("mismatch"), std::string::npos) << failure();
}

}  // namespace
}  // namespace pawl::http
