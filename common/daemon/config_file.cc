#include "common/daemon/config_file.h"

#include <fmt/format.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>

namespace espalier::io {
namespace {

constexpr std::size_t kMaxConfigBytes = 1 << 20;

class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  explicit FirstError(std::string_view file_name) : file_name_(file_name) {}

  void AddError(int line, int column, const std::string& message) override {
    if (text_) return;
    // protobuf counts from 0, and uses -1 for errors without a line.
    text_ = line < 0 ? fmt::format("{}: {}", file_name_, message)
                     : fmt::format("{}:{}:{}: {}", file_name_, line + 1, column + 1, message);
  }

  const std::optional<std::string>& text() const { return text_; }

 private:
  std::string_view file_name_;
  std::optional<std::string> text_;
};

}  // namespace

Result<void> ParseConfig(std::string_view text, std::string_view file_name,
                         google::protobuf::Message& config) {
  if (text.size() > kMaxConfigBytes) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("{}: the file is larger than {} bytes", file_name, kMaxConfigBytes));
  }
  google::protobuf::io::ArrayInputStream input(text.data(), static_cast<int>(text.size()));
  FirstError errors(file_name);
  google::protobuf::TextFormat::Parser parser;
  parser.SetRecursionLimit(32);
  parser.RecordErrorsTo(&errors);
  const bool parsed = parser.Parse(&input, &config);
  if (errors.text()) return Fail(ErrorCode::kInvalidArgument, *errors.text());
  if (!parsed)
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: the file is malformed", file_name));
  return {};
}

Result<void> ReadConfigFile(const std::string& path, google::protobuf::Message& config) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    const int error = errno;
    return Fail(error == EACCES ? ErrorCode::kPermissionDenied : ErrorCode::kNotFound,
                fmt::format("{}: {}", path, std::strerror(error)));
  }
  std::string text(kMaxConfigBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad())
    return Fail(ErrorCode::kUnavailable, fmt::format("{}: cannot read the file", path));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return ParseConfig(text, path, config);
}

tl::unexpected<Error> FailField(std::string_view file_name, std::string_view field,
                                std::string_view what) {
  return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: {}: {}", file_name, field, what));
}

std::string Or(const std::string& text, std::string_view fallback) {
  return text.empty() ? std::string(fallback) : text;
}

}  // namespace espalier::io
