#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <optional>
#include <type_traits>
#include <unordered_set>
#include <utility>

#include "common/http/http.h"
#include "common/http/url.h"
#include "common/http/user_names.h"
#include "common/net/handshake_allowance.h"
#include "common/net/socket_address.h"

namespace espalier::io {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::generic::stream_protocol;
using beast::error_code;
using PlainStream = beast::basic_stream<stream_protocol>;
using TlsStream = beast::ssl_stream<PlainStream>;
using namespace std::chrono_literals;

constexpr std::size_t kMaxRequestBytes = 1 << 20;
// From users of this host, who may send whole topologies.
constexpr std::size_t kMaxLocalRequestBytes = 16 << 20;
constexpr auto kAcceptRetry = 100ms;

// The server's view of a connection.
class AnySession {
 public:
  virtual ~AnySession() = default;
  // Called when the server is destroyed or needs the place: no handler is called after this.
  virtual void Close() = 0;
  // When it began to wait for its next request, as a number in the order of all waits; none while a
  // request is being answered.
  std::optional<std::uint64_t> waits_since;
};

// The state that the sessions of one server share.
struct ServerState {
  explicit ServerState(AsioEventLoop& loop) : user_names(loop) {}

  HttpServer::LateHandler handler;
  HttpServerOptions options;
  bool is_unix = false;
  std::unordered_set<AnySession*> sessions;
  std::uint64_t waits = 0;
  UserNames user_names;
};

HttpResponse PlainError(http::status status) {
  return {static_cast<int>(status), "text/plain",
          fmt::format("{}\n", http::obsolete_reason(status).to_string())};
}

// The id of the user at the other end of a unix socket.
std::optional<uid_t> UserOf(int descriptor) {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return {};
  return credentials.uid;
}

// The address of the other end; without an address family if it is gone.
SocketAddress AddressOf(stream_protocol::socket& socket) {
  SocketAddress address;
  error_code error;
  const stream_protocol::endpoint remote = socket.remote_endpoint(error);
  if (error) return address;
  std::memcpy(&address.storage, remote.data(), remote.size());
  address.size = static_cast<socklen_t>(remote.size());
  return address;
}

std::string PeerOf(stream_protocol::socket& socket) {
  const SocketAddress address = AddressOf(socket);
  if (address.size == 0) return "unknown";
  const std::string text = FormatSocketAddress(address);
  return text.substr(0, text.rfind(':'));
}

// One connection, which handles requests one after another.
template <typename Stream>
class Session : public AnySession, public std::enable_shared_from_this<Session<Stream>> {
 public:
  template <typename... StreamArguments>
  explicit Session(std::shared_ptr<ServerState> server, StreamArguments&&... arguments)
      : stream_(std::forward<StreamArguments>(arguments)...), server_(std::move(server)) {
    server_->sessions.insert(this);
  }
  ~Session() override { server_->sessions.erase(this); }

  void Start() {
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      waits_since = server_->waits++;
      SetTimeout();
      stream_.async_handshake(asio::ssl::stream_base::server,
                              [self = shared_from_this()](const error_code& error) {
                                if (!error && !self->closed_) self->Read();
                              });
    } else {
      Read();
    }
  }

  void Close() override {
    closed_ = true;
    error_code ignored;  // a failure to close needs no handling
    beast::get_lowest_layer(stream_).socket().close(ignored);
  }

 private:
  using std::enable_shared_from_this<Session<Stream>>::shared_from_this;
  using std::enable_shared_from_this<Session<Stream>>::weak_from_this;

  void SetTimeout() { beast::get_lowest_layer(stream_).expires_after(server_->options.timeout); }

  void Read() {
    parser_.emplace();
    parser_->body_limit(server_->is_unix ? kMaxLocalRequestBytes : kMaxRequestBytes);
    waits_since = server_->waits++;
    SetTimeout();
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](const error_code& error, std::size_t) {
                       self->HandleRead(error);
                     });
  }

  void HandleRead(const error_code& error) {
    waits_since.reset();
    if (closed_ || error == http::error::end_of_stream || error == beast::error::timeout) return;
    if (error == http::error::body_limit) {
      Write(PlainError(http::status::payload_too_large), false);
    } else if (error == http::error::header_limit) {
      Write(PlainError(http::status::request_header_fields_too_large), false);
    } else if (error &&
               error.category() == http::make_error_code(http::error::bad_method).category()) {
      Write(PlainError(http::status::bad_request), false);
    } else if (!error) {
      Answer(parser_->get());
    }
  }

  void Answer(http::request<http::string_body>& message) {
    const bool keep_alive = message.keep_alive();
    switch (message.method()) {
      case http::verb::get:
      case http::verb::post:
      case http::verb::put:
      case http::verb::delete_:
        break;
      default:
        return Write(PlainError(http::status::not_implemented), keep_alive);
    }
    const beast::string_view target = message.target();
    std::optional<Url> url = ParseUrl({target.data(), target.size()});
    if (!url) return Write(PlainError(http::status::bad_request), keep_alive);
    HttpRequest request;
    request.method = message.method_string().to_string();
    request.path = std::move(url->path);
    request.query = std::move(url->query);
    request.body = std::move(message.body());
    for (const auto& field : message) {
      std::string name = field.name_string().to_string();
      std::transform(name.begin(), name.end(), name.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      request.headers[std::move(name)] = field.value().to_string();
    }
    request.from_unix_socket = server_->is_unix;
    auto& socket = beast::get_lowest_layer(stream_).socket();
    if (!server_->is_unix) {
      request.peer = PeerOf(socket);
      return Ask(request, keep_alive);
    }
    const std::optional<uid_t> uid = UserOf(socket.native_handle());
    if (!uid) {
      request.peer = "unknown";
      return Ask(request, keep_alive);
    }
    server_->user_names.Find(*uid, [self = shared_from_this(), request = std::move(request),
                                    keep_alive](const std::string& name) mutable {
      if (self->closed_) return;
      request.peer = "user " + name;
      self->Ask(request, keep_alive);
    });
  }

  void Ask(const HttpRequest& request, bool keep_alive) {
    server_->handler(request, [self = shared_from_this(), keep_alive](HttpResponse answer) {
      if (!self->closed_) self->Write(std::move(answer), keep_alive);
    });
  }

  template <typename Response>
  static void SetHead(Response& response, const HttpResponse& answer) {
    response.result(static_cast<unsigned>(answer.status));
    response.set(http::field::content_type, answer.content_type);
    for (const auto& [name, value] : answer.headers) response.set(name, value);
  }

  void Write(HttpResponse answer, bool keep_alive) {
    if (answer.stream) return WriteStream(std::move(answer));
    response_ = {};
    SetHead(response_, answer);
    response_.body() = std::move(answer.body);
    response_.keep_alive(keep_alive);
    response_.prepare_payload();
    SetTimeout();
    http::async_write(stream_, response_,
                      [self = shared_from_this()](const error_code& error, std::size_t) {
                        if (error || self->closed_ || !self->response_.keep_alive()) return;
                        self->Read();
                      });
  }

  // Writes a body that ends with the connection.
  void WriteStream(HttpResponse answer) {
    source_ = std::move(answer.stream);
    source_->wake = [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->WritePiece();
    };
    SetHead(stream_head_, answer);
    stream_head_.keep_alive(false);
    stream_serializer_.emplace(stream_head_);
    AwaitHangUp();
    writing_ = true;
    SetTimeout();
    http::async_write_header(stream_, *stream_serializer_,
                             [self = shared_from_this()](const error_code& error, std::size_t) {
                               self->HandlePieceWritten(error);
                             });
  }

  void WritePiece() {
    if (writing_ || closed_) return;
    piece_ = source_->Next();
    if (!piece_) return;
    writing_ = true;
    SetTimeout();
    asio::async_write(stream_, asio::buffer(*piece_),
                      [self = shared_from_this()](const error_code& error, std::size_t) {
                        self->HandlePieceWritten(error);
                      });
  }

  void HandlePieceWritten(const error_code& error) {
    writing_ = false;
    if (error) return Close();
    WritePiece();
  }

  // Reads, which keeps the session alive while there is nothing to write. The client must send
  // nothing more, so any input or error ends the session.
  void AwaitHangUp() {
    beast::get_lowest_layer(stream_).expires_never();
    stream_.async_read_some(
        buffer_.prepare(1),
        [self = shared_from_this()](const error_code&, std::size_t) { self->Close(); });
  }

  Stream stream_;
  std::shared_ptr<ServerState> server_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  http::response<http::string_body> response_;
  std::shared_ptr<HttpStream> source_;  // set for a response that is a stream
  http::response<http::empty_body> stream_head_;
  std::optional<http::response_serializer<http::empty_body>> stream_serializer_;
  std::shared_ptr<const std::string> piece_;
  bool writing_ = false;
  bool closed_ = false;
};

tl::unexpected<Error> SystemError(const SocketAddress& address, int error) {
  const ErrorCode code =
      error == EACCES || error == EPERM ? ErrorCode::kPermissionDenied : ErrorCode::kUnavailable;
  return Fail(code, fmt::format("{}: {}", FormatSocketAddress(address), std::strerror(error)));
}

const char* UnixPath(const SocketAddress& address) {
  return reinterpret_cast<const sockaddr_un&>(address.storage).sun_path;
}

// Removes a socket that a dead process left at the path; refuses to remove anything else.
Result<void> RemoveStaleSocket(asio::io_context& context, const SocketAddress& address) {
  struct stat status {};
  if (lstat(UnixPath(address), &status) != 0) return {};
  if (!S_ISSOCK(status.st_mode)) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("{}: the path exists and is not a socket (name another one)",
                            FormatSocketAddress(address)));
  }
  stream_protocol::socket probe(context);
  error_code error;
  probe.connect(stream_protocol::endpoint(address.get(), address.size), error);
  if (error == asio::error::connection_refused) {
    unlink(UnixPath(address));
    return {};
  }
  if (error) return SystemError(address, error.value());
  return Fail(ErrorCode::kUnavailable,
              fmt::format("{}: another process listens there (stop it first)",
                          FormatSocketAddress(address)));
}

class Server : public HttpServer {
 public:
  Server(AsioEventLoop& loop, LateHandler handler, const HttpServerOptions& options)
      : loop_(loop),
        state_(std::make_shared<ServerState>(loop)),
        acceptor_(*static_cast<asio::io_context*>(loop.context())) {
    state_->handler = std::move(handler);
    state_->options = options;
  }

  ~Server() override {
    for (AnySession* session : state_->sessions) session->Close();
    if (state_->is_unix && acceptor_.is_open()) unlink(UnixPath(address_));
  }

  Result<void> Open(const SocketAddress& address) {
    address_ = address;
    state_->is_unix = address.IsUnix();
    if (!state_->is_unix && !state_->options.tls_certificate_file.empty()) {
      if (Result<void> loaded = LoadCertificate(); !loaded) return loaded;
    }
    const stream_protocol::endpoint endpoint(address.get(), address.size);
    error_code error;
    acceptor_.open(endpoint.protocol(), error);
    if (error) return SystemError(address, error.value());
    if (!address.IsUnix()) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    acceptor_.bind(endpoint, error);
    if (error) {
      acceptor_.close();
      return SystemError(address, error.value());
    }
    // Sets the mode before listening, so that no process can connect before it is right.
    if (address.IsUnix() && chmod(UnixPath(address), 0660) != 0) return SystemError(address, errno);
    acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) return SystemError(address, error.value());
    const stream_protocol::endpoint bound = acceptor_.local_endpoint(error);
    if (error) return SystemError(address, error.value());
    if (!address.IsUnix()) {
      std::memcpy(&address_.storage, bound.data(), bound.size());
      address_.size = static_cast<socklen_t>(bound.size());
    }
    Accept();
    return {};
  }

  std::string address() const override { return FormatSocketAddress(address_); }

  Result<void> ReloadCertificate() override { return tls_ ? LoadCertificate() : Result<void>(); }

 private:
  Result<void> LoadCertificate() {
    const HttpServerOptions& files = state_->options;
    const auto failed = [](const std::string& file, const error_code& error) {
      return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: {}", file, error.message()));
    };
    struct stat status {};
    if (::stat(files.tls_key_file.c_str(), &status) == 0 && (status.st_mode & 077) != 0) {
      return Fail(ErrorCode::kPermissionDenied,
                  fmt::format("{}: other users can read it (chmod 600 {})", files.tls_key_file,
                              files.tls_key_file));
    }
    asio::ssl::context tls(asio::ssl::context::tls_server);
    SSL_CTX_set_min_proto_version(tls.native_handle(), TLS1_2_VERSION);
    error_code error;
    tls.use_certificate_chain_file(files.tls_certificate_file, error);
    if (error) return failed(files.tls_certificate_file, error);
    tls.use_private_key_file(files.tls_key_file, asio::ssl::context::pem, error);
    if (error) return failed(files.tls_key_file, error);
    tls_.emplace(std::move(tls));  // open connections keep their context
    return {};
  }

  // Makes room, if necessary, by closing a connection that waits for a request.
  bool HasRoom() {
    if (state_->sessions.size() < state_->options.max_connections) return true;
    AnySession* slowest = nullptr;
    for (AnySession* session : state_->sessions) {
      if (!session->waits_since) continue;
      if (slowest == nullptr || *session->waits_since < *slowest->waits_since) slowest = session;
    }
    if (slowest == nullptr) return false;
    slowest->waits_since.reset();
    slowest->Close();
    return true;
  }

  void Serve() {
    if (tls_ && !handshakes_.Take(AddressOf(incoming_), loop_.Now())) {
      error_code ignored;
      incoming_.close(ignored);
    } else if (tls_) {
      std::make_shared<Session<TlsStream>>(state_, std::move(incoming_), *tls_)->Start();
    } else {
      std::make_shared<Session<PlainStream>>(state_, std::move(incoming_))->Start();
    }
  }

  void Accept() {
    acceptor_.async_accept(incoming_, [this](const error_code& error) {
      if (error == asio::error::operation_aborted) return;
      if (error) {  // for example, no descriptors are left
        retry_ = loop_.After(kAcceptRetry, [this] { Accept(); });
        return;
      }
      if (HasRoom()) Serve();
      incoming_ = stream_protocol::socket(acceptor_.get_executor());
      Accept();
    });
  }

  AsioEventLoop& loop_;
  SocketAddress address_;
  std::shared_ptr<ServerState> state_;
  HandshakeAllowance handshakes_;
  std::optional<asio::ssl::context> tls_;
  asio::basic_socket_acceptor<stream_protocol> acceptor_;
  stream_protocol::socket incoming_{acceptor_.get_executor()};
  TimerPtr retry_;
};

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::Listen(AsioEventLoop& loop,
                                                       const std::string& address,
                                                       LateHandler handler,
                                                       const HttpServerOptions& options) {
  Result<SocketAddress> parsed = ParseSocketAddress(address);
  if (!parsed) return Propagate(parsed);
  if (parsed->IsUnix()) {
    auto& context = *static_cast<asio::io_context*>(loop.context());
    if (Result<void> removed = RemoveStaleSocket(context, *parsed); !removed) {
      return Propagate(removed);
    }
  }
  auto server = std::make_unique<Server>(loop, std::move(handler), options);
  if (Result<void> opened = server->Open(*parsed); !opened) return Propagate(opened);
  return server;
}

Result<std::unique_ptr<HttpServer>> HttpServer::Listen(AsioEventLoop& loop,
                                                       const std::string& address, Handler handler,
                                                       const HttpServerOptions& options) {
  LateHandler late = [handler = std::move(handler)](const HttpRequest& request,
                                                    const Respond& respond) {
    respond(handler(request));
  };
  return Listen(loop, address, std::move(late), options);
}

}  // namespace espalier::io
