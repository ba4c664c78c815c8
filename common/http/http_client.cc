#include "common/http/http_client.h"

#include <fmt/format.h>

#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <string_view>
#include <utility>

#include "common/http/http.h"
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

constexpr std::string_view kHttp = "http://";
constexpr std::string_view kHttps = "https://";

// A request in progress on one connection, and its outcome.
struct Exchange {
  http::request<http::string_body> request;
  beast::flat_buffer buffer;
  http::response_parser<http::string_body> response;
  std::uint64_t most_bytes = 0;
  error_code outcome;
};

template <typename Stream>
void ReadBody(Stream& stream, Exchange& exchange) {
  http::async_read(stream, exchange.buffer, exchange.response,
                   [&](const error_code& error, std::size_t) {
                     exchange.outcome = error;
                     // Some servers close TLS without notice; the answer is complete all the same.
                     if (exchange.response.is_done()) exchange.outcome = {};
                   });
}

template <typename Stream>
void Converse(Stream& stream, Exchange& exchange) {
  http::async_write(stream, exchange.request, [&](const error_code& error, std::size_t) {
    exchange.outcome = error;
    if (error) return;
    http::async_read_header(stream, exchange.buffer, exchange.response,
                            [&](const error_code& read_error, std::size_t) {
                              exchange.outcome = read_error;
                              if (read_error) return;
                              // Beast 1.74 does not apply the limit to a response that states its
                              // length.
                              const auto length = exchange.response.content_length();
                              if (length && *length > exchange.most_bytes) {
                                exchange.outcome = http::error::body_limit;
                                return;
                              }
                              ReadBody(stream, exchange);
                            });
  });
}

// Sets the trusted authorities and the host name that the certificate must have.
Result<void> Prepare(asio::ssl::context& tls, TlsStream& stream, const std::string& ca_file,
                     const std::string& host) {
  error_code error;
  if (ca_file.empty()) {
    tls.set_default_verify_paths(error);
  } else {
    tls.load_verify_file(ca_file, error);
  }
  if (error) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: no certificates in PEM form can be read from it ({})", ca_file,
                            error.message()));
  }
  SSL_set_tlsext_host_name(stream.native_handle(), host.c_str());
  stream.set_verify_mode(asio::ssl::verify_peer, error);
  stream.set_verify_callback(asio::ssl::host_name_verification(host), error);
  return {};
}

}  // namespace

Result<HttpResponse> HttpFetch(const std::string& address, const std::string& method,
                               const std::string& target, const std::string& body, Duration timeout,
                               const HttpAccess& access) {
  const bool is_tls = address.starts_with(kHttps);
  const std::string place = is_tls                       ? address.substr(kHttps.size())
                            : address.starts_with(kHttp) ? address.substr(kHttp.size())
                                                         : address;
  const Result<SocketAddress> parsed = ParseSocketAddress(place);
  if (!parsed) return tl::unexpected(parsed.error());

  Exchange exchange;
  exchange.request.method_string(method);
  exchange.request.target(target);
  exchange.request.set(http::field::host, parsed->IsUnix() ? "localhost" : place);
  for (const auto& [name, value] : access.headers) exchange.request.set(name, value);
  exchange.request.keep_alive(false);
  exchange.request.body() = body;
  exchange.request.prepare_payload();
  exchange.most_bytes = access.most_bytes;
  exchange.response.body_limit(access.most_bytes);

  asio::io_context context;
  asio::ssl::context tls(asio::ssl::context::tls_client);
  TlsStream stream(context, tls);
  PlainStream& plain = beast::get_lowest_layer(stream);
  if (is_tls) {
    const std::string host = place.substr(0, place.rfind(':'));
    if (Result<void> prepared = Prepare(tls, stream, access.ca_file, host); !prepared) {
      return Propagate(prepared);
    }
  }
  bool believed = true;
  plain.expires_after(timeout);
  plain.async_connect(
      stream_protocol::endpoint(parsed->get(), parsed->size), [&](const error_code& error) {
        exchange.outcome = error;
        if (error) return;
        if (!is_tls) return Converse(plain, exchange);
        stream.async_handshake(asio::ssl::stream_base::client, [&](const error_code& shaken) {
          exchange.outcome = shaken;
          believed = !shaken;
          if (!shaken) Converse(stream, exchange);
        });
      });
  context.run();
  if (!believed) {
    return Fail(
        ErrorCode::kPermissionDenied,
        fmt::format("{}: no TLS connection: {} (does it speak https, and does --ca name the "
                    "authority of its certificate?)",
                    address, exchange.outcome.message()));
  }
  if (exchange.outcome) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("{}: {}", address, exchange.outcome.message()));
  }
  http::response<http::string_body>& message = exchange.response.get();
  HttpResponse response{static_cast<int>(message.result_int()),
                        std::string(message[http::field::content_type]), std::move(message.body())};
  for (const auto& field : message) {
    response.headers.emplace_back(field.name_string().to_string(), field.value().to_string());
  }
  return response;
}

}  // namespace espalier::io
