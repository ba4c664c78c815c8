#include "common/base/users/job_key.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <system_error>

namespace espalier {
namespace {

// The value of a hexadecimal digit, 0 to 15; -1 for other characters.
int DigitOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

}  // namespace

Nonce DrawNonce() {
  Nonce nonce;
  // getrandom returns up to 256 bytes all at once or fails.
  while (::getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) {
    if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "getrandom");
  }
  return nonce;
}

bool IsSame(const Mac& one, const Mac& other) {
  return CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

Result<JobKey> JobKey::Parse(std::string_view text) {
  const std::string_view digits = Trim(text);
  Bytes bytes;
  bool is_right = digits.size() == 2 * bytes.size();
  for (std::size_t i = 0; is_right && i < bytes.size(); ++i) {
    const int high = DigitOf(digits[2 * i]);
    const int low = DigitOf(digits[2 * i + 1]);
    is_right = high >= 0 && low >= 0;
    bytes[i] = static_cast<std::uint8_t>((high << 4) | low);
  }
  if (is_right) return JobKey(bytes);
  return Fail(
      ErrorCode::kInvalidArgument,
      fmt::format(
          "a job key must have {} hexadecimal digits (create one with `openssl rand -hex {}`)",
          2 * bytes.size(), bytes.size()));
}

std::string JobKey::ToText() const { return fmt::format("{:02x}", fmt::join(bytes_, "")); }

Mac JobKey::Sign(std::string_view purpose,
                 std::initializer_list<std::span<const std::byte>> parts) const {
  std::string text(purpose);
  text += '\0';  // so that no purpose is a prefix of another
  for (const auto part : parts) {
    text.append(reinterpret_cast<const char*>(part.data()), part.size());
  }
  Mac mac;
  unsigned bytes = 0;
  const unsigned char* const done =
      HMAC(EVP_sha256(), bytes_.data(), static_cast<int>(bytes_.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac.data(), &bytes);
  if (done == nullptr || bytes != mac.size()) throw std::bad_alloc();
  return mac;
}

JobKey JobKey::Derive(std::string_view purpose, std::string_view context) const {
  return JobKey(Sign(purpose, {std::as_bytes(std::span(context))}));
}

}  // namespace espalier
