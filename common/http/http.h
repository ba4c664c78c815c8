#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace espalier::io {

struct HttpRequest {
  std::string method;  // "GET", "POST", "PUT" or "DELETE"; the server answers others with 501
  std::string path;    // decoded, without the query
  std::map<std::string, std::string> query;  // decoded; the last value of a repeated key
  std::string body;
  std::map<std::string, std::string> headers{};  // by name in lower case
  bool from_unix_socket = false;
  std::string
      peer;  // the caller as the system identifies it: "user root" on a unix socket, else its IP
};

// An unbounded body that the server reads piece by piece, as fast as the client receives it.
// Nothing is buffered for a slow client; its next piece can contain what it has missed. The server
// destroys the stream when the client is gone or receives nothing for 30 s. Thread safety: the
// loop's thread.
class HttpStream {
 public:
  virtual ~HttpStream() = default;
  // Returns the next piece, which streams may share. Null: there is none yet; the stream calls
  // `wake` when there is.
  virtual std::shared_ptr<const std::string> Next() = 0;
  // Set by the server before the first Next.
  std::function<void()> wake;
  // Set by the server, too: ends the connection. The stream may be destroyed in it or later.
  std::function<void()> end;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>>
      headers{};                         // in addition to those of the content
  std::shared_ptr<HttpStream> stream{};  // replaces the body; the connection ends with it
  // The caller has proved who it is; connections of others are fewer, and their requests wait.
  bool is_to_known_caller = false;
};

}  // namespace espalier::io
