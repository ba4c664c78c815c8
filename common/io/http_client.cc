#include <fmt/format.h>

#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <optional>

#include "common/io/http.h"
#include "common/io/socket_address.h"

namespace espalier::io {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::generic::stream_protocol;
using beast::error_code;

constexpr std::uint64_t kMaxResponseBytes = 256 << 20;

}  // namespace

Result<HttpResponse> HttpFetch(const std::string& address, const std::string& method,
                               const std::string& target, const std::string& body,
                               Duration timeout) {
  const Result<SocketAddress> parsed = ParseSocketAddress(address);
  if (!parsed) return tl::unexpected(parsed.error());

  http::request<http::string_body> request;
  request.method_string(method);
  request.target(target);
  request.set(http::field::host, parsed->IsUnix() ? "localhost" : address);
  request.keep_alive(false);
  request.body() = body;
  request.prepare_payload();

  asio::io_context context;
  beast::basic_stream<stream_protocol> stream(context);
  beast::flat_buffer buffer;
  http::response_parser<http::string_body> response;
  response.body_limit(kMaxResponseBytes);
  error_code outcome;
  const auto read = [&](const error_code& error, std::size_t) {
    outcome = error;
    if (error) return;
    http::async_read(stream, buffer, response,
                     [&](const error_code& read_error, std::size_t) { outcome = read_error; });
  };
  stream.expires_after(timeout);
  stream.async_connect(stream_protocol::endpoint(parsed->get(), parsed->size),
                       [&](const error_code& error) {
                         outcome = error;
                         if (!error) http::async_write(stream, request, read);
                       });
  context.run();
  if (outcome) {
    return Fail(ErrorCode::kUnavailable, fmt::format("{}: {}", address, outcome.message()));
  }
  http::response<http::string_body>& message = response.get();
  return HttpResponse{static_cast<int>(message.result_int()),
                      std::string(message[http::field::content_type]), std::move(message.body())};
}

}  // namespace espalier::io
