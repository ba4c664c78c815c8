#include "common/http/http_server.h"

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
#include <utility>

#include "common/files/trusted_files.h"
#include "common/http/connection_places.h"
#include "common/http/http.h"
#include "common/http/shared_answer.h"
#include "common/http/url.h"
#include "common/http/user_names.h"
#include "common/net/socket_address.h"
#include "common/net/source_allowance.h"
#include "common/net/stale_socket.h"

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

constexpr Duration kReserveTimeout = 2s;
constexpr Duration kPlaceRetry = 10ms;
constexpr double kHandshakesPerSecond = 20;
constexpr double kHandshakesAtOnce = 50;

// The state that the sessions of one server share.
struct ServerState {
  ServerState(AsioEventLoop& own_loop, const HttpServerOptions& own_options)
      : loop(own_loop),
        options(own_options),
        places(options.places),
        answers(options.stranger_answers_per_second, options.stranger_answers_per_second),
        liveness(std::make_shared<SharedAnswer>([&own_loop] { return own_loop.Now(); })),
        user_names(own_loop) {}

  AsioEventLoop& loop;
  HttpServer::LateHandler handler;
  const HttpServerOptions options;
  bool is_unix = false;
  ConnectionPlaces places;
  SourceAllowance answers;
  std::shared_ptr<SharedAnswer> liveness;
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

bool AsksWhetherAlive(const HttpRequest& request) {
  return request.method == "GET" && request.path == "/healthz";
}

// One connection, which handles requests one after another.
template <typename Stream>
class Session : public Connection, public std::enable_shared_from_this<Session<Stream>> {
 public:
  template <typename... StreamArguments>
  explicit Session(std::shared_ptr<ServerState> server, StreamArguments&&... arguments)
      : stream_(std::forward<StreamArguments>(arguments)...), server_(std::move(server)) {
    server_->places.Add(*this);
  }
  ~Session() override { server_->places.Remove(*this); }

  void Start() {
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      server_->places.Wait(*this);
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
    const TimerPtr delay = std::move(delay_);  // may own the last reference to this
    error_code ignored;                        // a failure to close needs no handling
    beast::get_lowest_layer(stream_).socket().close(ignored);
  }

 private:
  using std::enable_shared_from_this<Session<Stream>>::shared_from_this;
  using std::enable_shared_from_this<Session<Stream>>::weak_from_this;

  void SetTimeout() {
    const Duration timeout = server_->options.timeout;
    beast::get_lowest_layer(stream_).expires_after(is_reserve ? std::min(timeout, kReserveTimeout)
                                                              : timeout);
  }

  void Read() {
    parser_.emplace();
    parser_->body_limit(server_->is_unix ? kMaxLocalRequestBytes : kMaxRequestBytes);
    server_->places.Wait(*this);
    SetTimeout();
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](const error_code& error, std::size_t) {
                       self->HandleRead(error);
                     });
  }

  void HandleRead(const error_code& error) {
    waits_since.reset();
    is_new = false;
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

  // Has the request answered, at once or when its source may have an answer.
  void Ask(const HttpRequest& request, bool keep_alive) {
    HttpServer::Respond respond = [self = shared_from_this(), keep_alive](HttpResponse answer) {
      if (!self->closed_) self->Respond(std::move(answer), keep_alive);
    };
    if (!source.empty() && AsksWhetherAlive(request)) {
      return server_->liveness->Get(std::move(respond),
                                    [server = server_, request](HttpServer::Respond shared) {
                                      server->handler(request, std::move(shared));
                                    });
    }
    const TimePoint give_up = server_->loop.Now() + kReserveTimeout;
    AskInTurn(request, std::move(respond), give_up);
  }

  // Asks when this has a place that is not of the reserve, and its source may have an answer.
  void AskInTurn(const HttpRequest& request, HttpServer::Respond respond, TimePoint give_up) {
    const TimePoint now = server_->loop.Now();
    const bool has_place = !is_reserve || server_->places.LeaveReserve(*this, now);
    const bool gives_up = !has_place && now >= give_up;
    const Duration wait = has_place ? WaitBefore(request) : kPlaceRetry;
    if (gives_up || wait <= Duration::zero()) waits_since.reset();
    if (gives_up) return Write(PlainError(http::status::service_unavailable), false);
    if (wait <= Duration::zero()) return server_->handler(request, std::move(respond));
    if (!waits_since) server_->places.Wait(*this);
    beast::get_lowest_layer(stream_).expires_never();
    delay_ = server_->loop.After(
        wait, [self = shared_from_this(), request, respond = std::move(respond),
               give_up]() mutable { self->AskInTurn(request, std::move(respond), give_up); });
  }

  Duration WaitBefore(const HttpRequest& request) const {
    if (is_known || source.empty()) return Duration::zero();
    const bool has_credentials =
        request.headers.contains("authorization") || request.headers.contains("cookie");
    const double debt = has_credentials ? server_->options.stranger_answers_per_second : 0;
    return server_->answers.WaitFor(source, debt, server_->loop.Now());
  }

  void Respond(HttpResponse answer, bool keep_alive) {
    is_known = is_known || answer.is_to_known_caller;
    if (!is_known && !source.empty()) server_->answers.Charge(source, server_->loop.Now());
    Write(std::move(answer), keep_alive && !is_reserve);
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
    serializer_.emplace(response_);
    server_->places.BeginWrite(*this, server_->loop.Now());
    WriteSome();
  }

  // Writes as much as the client receives now. The time for the rest grows with what it receives.
  void WriteSome() {
    const std::chrono::steady_clock::time_point until(writes_until->time_since_epoch());
    beast::get_lowest_layer(stream_).expires_at(until);
    http::async_write_some(stream_, *serializer_,
                           [self = shared_from_this()](const error_code& error, std::size_t bytes) {
                             if (error || self->closed_) return;
                             self->server_->places.CountWritten(*self, bytes,
                                                                self->server_->loop.Now());
                             if (!self->serializer_->is_done()) return self->WriteSome();
                             self->writes_until.reset();
                             if (self->response_.keep_alive()) self->Read();
                           });
  }

  // Writes a body that ends with the connection.
  void WriteStream(HttpResponse answer) {
    source_ = std::move(answer.stream);
    source_->wake = [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->WritePiece();
    };
    source_->end = [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->Close();
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
    if (!piece_ || closed_) return;
    writing_ = true;
    server_->places.BeginWrite(*this, server_->loop.Now());
    SetTimeout();
    asio::async_write(stream_, asio::buffer(*piece_),
                      [self = shared_from_this()](const error_code& error, std::size_t) {
                        self->HandlePieceWritten(error);
                      });
  }

  void HandlePieceWritten(const error_code& error) {
    writing_ = false;
    writes_until.reset();
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
  std::optional<http::response_serializer<http::string_body>> serializer_;
  TimerPtr delay_;
  std::shared_ptr<HttpStream> source_;  // set for a response that is a stream
  http::response<http::empty_body> stream_head_;
  std::optional<http::response_serializer<http::empty_body>> stream_serializer_;
  std::shared_ptr<const std::string> piece_;
  bool writing_ = false;
  bool closed_ = false;
};

class Server : public HttpServer {
 public:
  Server(AsioEventLoop& loop, LateHandler handler, const HttpServerOptions& options)
      : loop_(loop),
        state_(std::make_shared<ServerState>(loop, options)),
        acceptor_(*static_cast<asio::io_context*>(loop.context())) {
    state_->handler = std::move(handler);
  }

  ~Server() override {
    state_->places.CloseAll();
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
    if (error) return SocketError(address, error.value());
    if (!address.IsUnix()) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    acceptor_.bind(endpoint, error);
    if (error) {
      acceptor_.close();
      return SocketError(address, error.value());
    }
    // Sets the mode before listening, so that no process can connect before it is right.
    if (address.IsUnix() && chmod(UnixPath(address), 0660) != 0) return SocketError(address, errno);
    acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) return SocketError(address, error.value());
    const stream_protocol::endpoint bound = acceptor_.local_endpoint(error);
    if (error) return SocketError(address, error.value());
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
    Result<std::string> key = ReadSecretFile(files.tls_key_file);
    if (!key) return Propagate(key);
    asio::ssl::context tls(asio::ssl::context::tls_server);
    SSL_CTX_set_min_proto_version(tls.native_handle(), TLS1_2_VERSION);
    error_code error;
    tls.use_certificate_chain_file(files.tls_certificate_file, error);
    if (error) return failed(files.tls_certificate_file, error);
    tls.use_private_key(asio::buffer(*key), asio::ssl::context::pem, error);
    if (error) return failed(files.tls_key_file, error);
    tls_.emplace(std::move(tls));  // open connections keep their context
    return {};
  }

  void Serve() {
    const SocketAddress address = AddressOf(incoming_);
    const std::string source = state_->is_unix || address.size == 0 ? "" : SourceOf(address);
    const bool may_shake = !tls_ || handshakes_.Take(source, loop_.Now());
    using Place = ConnectionPlaces::Place;
    const Place place = may_shake ? state_->places.MakeRoom(source, loop_.Now()) : Place::kNone;
    const auto start = [&](const auto& session) {
      session->source = source;
      session->is_reserve = place == Place::kReserve;
      session->Start();
    };
    if (place == Place::kNone) {
      error_code ignored;
      incoming_.close(ignored);
    } else if (tls_) {
      start(std::make_shared<Session<TlsStream>>(state_, std::move(incoming_), *tls_));
    } else {
      start(std::make_shared<Session<PlainStream>>(state_, std::move(incoming_)));
    }
  }

  void Accept() {
    acceptor_.async_accept(incoming_, [this](const error_code& error) {
      if (error == asio::error::operation_aborted) return;
      if (error) {  // for example, no descriptors are left
        retry_ = loop_.After(kAcceptRetry, [this] { Accept(); });
        return;
      }
      Serve();
      incoming_ = stream_protocol::socket(acceptor_.get_executor());
      Accept();
    });
  }

  AsioEventLoop& loop_;
  SocketAddress address_;
  std::shared_ptr<ServerState> state_;
  SourceAllowance handshakes_{kHandshakesPerSecond, kHandshakesAtOnce};
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
    if (Result<void> removed = RemoveStaleSocket(*parsed); !removed) return Propagate(removed);
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
