#include "deploy/cli/bundle/archive.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstring>

namespace espalier::cli {
namespace {

constexpr std::size_t kBlock = 512;
constexpr std::string_view kRemoved = "REMOVED";

// The header of a file in a tar archive.
std::string TarHeader(const std::string& name, std::size_t size, std::int64_t seconds) {
  std::array<char, kBlock> header{};
  const auto write = [&](std::size_t at, std::string_view text) {
    std::memcpy(header.data() + at, text.data(), text.size());
  };
  write(0, std::string_view(name).substr(0, 100));
  write(100, "0000600");
  write(108, "0000000");
  write(116, "0000000");
  write(124, fmt::format("{:011o}", size));
  write(136, fmt::format("{:011o}", std::max<std::int64_t>(seconds, 0)));
  write(148, "        ");  // the checksum counts as blanks
  write(156, "0");
  write(257, std::string_view("ustar\0"
                              "00",
                              8));
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  write(148, fmt::format("{:06o}", sum));
  header[154] = '\0';
  return {header.data(), header.size()};
}

Result<std::string> Compress(const std::string& text) {
  z_stream stream{};
  constexpr int kGzip = 15 + 16;  // window bits, and a gzip header
  if (::deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY) !=
      Z_OK) {
    return Fail(ErrorCode::kInternal, "the compression cannot start");
  }
  std::string compressed(::deflateBound(&stream, text.size()), '\0');
  // zlib does not change its input, though its pointer says that it may.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));  // NOLINT
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(compressed.data());
  stream.avail_out = static_cast<uInt>(compressed.size());
  const int result = ::deflate(&stream, Z_FINISH);
  compressed.resize(stream.total_out);
  ::deflateEnd(&stream);
  if (result != Z_STREAM_END) return Fail(ErrorCode::kInternal, "the compression failed");
  return compressed;
}

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

// Whether a field of this name holds a secret itself.
bool IsSecretName(std::string_view name) {
  const std::string lower = Lower(name);
  if (lower.ends_with("_file") || lower.ends_with("_folder")) return false;
  for (const std::string_view word : {"token", "secret", "password", "passphrase", "private_key"}) {
    if (lower.find(word) != std::string::npos) return true;
  }
  return false;
}

// The name of the field whose value begins at `at`: what stands before the colon.
std::string_view NameBefore(std::string_view text, std::size_t at) {
  const auto skip = [&](auto is_skipped) {
    while (at > 0 && is_skipped(text[at - 1])) --at;
  };
  skip([](char c) { return c == ' ' || c == '\t'; });
  if (at == 0 || text[at - 1] != ':') return "";
  --at;
  skip([](char c) { return c == ' ' || c == '\t' || c == '"'; });
  const std::size_t end = at;
  skip(IsWord);
  return text.substr(at, end - at);
}

// The end of the text in quotes that begins at `at`.
std::size_t EndOfQuoted(std::string_view text, std::size_t at) {
  const char quote = text[at];
  for (++at; at < text.size() && text[at] != quote; ++at) {
    if (text[at] == '\\') ++at;
  }
  return std::min(at, text.size());
}

}  // namespace

Result<std::string> MakeArchive(std::string_view folder, const std::vector<ArchiveFile>& files,
                                WallTime time) {
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
  std::string tar;
  for (const ArchiveFile& file : files) {
    tar += TarHeader(fmt::format("{}/{}", folder, file.name), file.text.size(), seconds);
    tar += file.text;
    tar.append((kBlock - tar.size() % kBlock) % kBlock, '\0');
  }
  tar.append(2 * kBlock, '\0');
  return Compress(tar);
}

std::string WithoutSecrets(std::string_view text) {
  constexpr std::string_view kToken = "esp_";
  std::string clean;
  for (std::size_t at = 0; at < text.size();) {
    const bool begins_word = at == 0 || !IsWord(text[at - 1]);
    if (begins_word && text.substr(at).starts_with(kToken)) {
      clean += std::string(kToken) + std::string(kRemoved);
      for (at += kToken.size(); at < text.size() && IsWord(text[at]);) ++at;
      continue;
    }
    if ((text[at] == '"' || text[at] == '\'') && IsSecretName(NameBefore(text, at))) {
      const std::size_t end = EndOfQuoted(text, at);
      clean += fmt::format("{}{}", text[at], kRemoved);
      at = end;
      if (at < text.size()) clean += text[at++];
      continue;
    }
    if (text.substr(at).starts_with("://")) {  // "://user:password@host"
      const std::size_t end = std::min(text.find_first_of("/ \t\r\n\"'", at + 3), text.size());
      const std::string_view authority = text.substr(at + 3, end - at - 3);
      const std::size_t sign = authority.rfind('@');
      clean += "://";
      if (sign != std::string_view::npos) clean += std::string(kRemoved);
      clean += authority.substr(sign == std::string_view::npos ? 0 : sign);
      at = end;
      continue;
    }
    clean += text[at++];
  }
  return clean;
}

}  // namespace espalier::cli
