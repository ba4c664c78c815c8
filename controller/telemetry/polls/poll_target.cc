#include "controller/telemetry/polls/poll_target.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <utility>

#include "common/http/http.h"
#include "common/http/http_client.h"
#include "common/os/command.h"
#include "controller/telemetry/polls/port_readers.h"

namespace espalier::telemetry {
namespace {

constexpr std::string_view kHttp = "http://";
constexpr std::string_view kHttps = "https://";

bool EndsInPort(std::string_view address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  std::uint16_t port = 0;
  const char* const end = address.data() + address.size();
  const auto [at, error] = std::from_chars(address.data() + colon + 1, end, port);
  return error == std::errc() && at == end && port > 0;
}

Result<std::string> FetchUrl(const PollTarget& target, const FetchOptions& options) {
  const io::HttpAccess access{.ca_file = options.ca_file, .most_bytes = PortReader::kMostBytes};
  Result<io::HttpResponse> answer =
      io::HttpFetch(target.address, "GET", target.path, "", options.timeout, access);
  if (!answer) return Propagate(answer);
  if (answer->status != 200) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("{} answers with status {}", target.Name(), answer->status));
  }
  return std::move(answer->body);
}

Result<std::string> RunCommandOf(const PollTarget& target, const FetchOptions& options) {
  Result<CommandOutput> done =
      RunWithin({.timeout = std::chrono::duration_cast<std::chrono::milliseconds>(options.timeout),
                 .most_bytes = PortReader::kMostBytes},
                {.argv = target.argv, .environment = {}, .node = ""});
  if (!done) return Propagate(done);
  if (done->exit_code != 0) {
    constexpr std::size_t kMostOfErrors = 160;
    return Fail(ErrorCode::kUnavailable,
                fmt::format("{} ends with exit code {}: {}", target.Name(), done->exit_code,
                            Printable(done->err, kMostOfErrors)));
  }
  return std::move(done->out);
}

}  // namespace

Result<std::vector<std::string>> SplitWords(std::string_view text) {
  std::vector<std::string> words;
  bool is_in_word = false;
  char quote = 0;
  for (const char c : text) {
    const bool is_space = c == ' ' || c == '\t' || c == '\n';
    if (quote == 0 && is_space) {
      is_in_word = false;
      continue;
    }
    if (!is_in_word) words.emplace_back();
    is_in_word = true;
    if (c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else {
      words.back() += c;
    }
  }
  if (quote != 0) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("a quotation mark {} is not closed", quote));
  }
  return words;
}

Result<PollTarget> ParsePollTarget(const std::vector<std::string>& words) {
  const bool is_plain = !words.empty() && words[0].starts_with(kHttp);
  if (!is_plain && (words.empty() || !words[0].starts_with(kHttps))) {
    if (words.empty() || words[0].empty()) {
      return Fail(ErrorCode::kInvalidArgument, "the target is missing (give a URL or a command)");
    }
    return PollTarget{.address = "", .path = "", .argv = words};
  }
  const std::string& url = words[0];
  const std::size_t slash = url.find('/', is_plain ? kHttp.size() : kHttps.size());
  PollTarget target{.address = url.substr(0, slash),
                    .path = slash == std::string::npos ? "/metrics" : url.substr(slash),
                    .argv = {}};
  const std::string_view host =
      std::string_view(target.address).substr(is_plain ? kHttp.size() : kHttps.size());
  const bool is_printable = std::ranges::all_of(url, [](char c) { return c > ' ' && c <= '~'; });
  if (words.size() > 1 || !is_printable || !EndsInPort(host)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is not http://HOST:PORT/PATH (nor https)", fmt::join(words, " ")));
  }
  return target;
}

Result<std::string> FetchFrom(const PollTarget& target, const FetchOptions& options) {
  return target.argv.empty() ? FetchUrl(target, options) : RunCommandOf(target, options);
}

}  // namespace espalier::telemetry
