#include "controller/api/http/logins.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <utility>

#include "common/base/log.h"
#include "common/files/file.h"
#include "common/files/trusted_files.h"
#include "common/identity/access_tokens.h"

namespace espalier::controller {
namespace {

bool IsHash(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

void Logins::KeepIn(std::string file, WallTime now) {
  file_ = std::move(file);
  const Result<std::string> text = io::ReadSecretFile(file_);
  if (!text) {
    if (text.error().code != ErrorCode::kNotFound) {
      Log(LogLevel::kWarning, "event=logins_not_read error=\"{}\"", text.error().message);
    }
    return;
  }
  std::istringstream lines(*text);
  std::string cookie_hash;
  std::string token_hash;
  std::string until;
  while (lines >> cookie_hash >> token_hash >> until) {
    const auto end = ParseWallTime(until, now);
    const bool is_login = IsHash(cookie_hash) && IsHash(token_hash) && end.has_value();
    if (is_login && *end > now && logins_.size() < kMost) logins_[cookie_hash] = {token_hash, *end};
  }
}

void Logins::Save() {
  if (file_.empty() || !has_changed_) return;
  std::string text;
  for (const auto& [cookie_hash, login] : logins_) {
    text += fmt::format("{} {} {}\n", cookie_hash, login.token_hash, FormatWallTime(login.until));
  }
  const Result<void> written = io::WriteFileDurably(file_, text, io::Readers::kOwner);
  has_changed_ = !written;
  if (written) return;
  Log(LogLevel::kWarning, "event=logins_not_written error=\"{}\"", written.error().message);
}

void Logins::SaveIfDue(WallTime now) {
  constexpr auto kPause = std::chrono::seconds(10);
  if (now >= saved_ && now < saved_ + kPause) return;
  saved_ = now;
  Save();
}

void Logins::Add(const std::string& cookie, const std::string& token_hash, WallTime until,
                 WallTime now) {
  std::erase_if(logins_, [&](const auto& login) { return login.second.until <= now; });
  const auto of_token = std::ranges::count_if(
      logins_, [&](const auto& login) { return login.second.token_hash == token_hash; });
  if (static_cast<std::size_t>(of_token) >= kMostOfToken) {
    EndOldest(token_hash);
  } else if (logins_.size() >= kMost) {
    EndOldest("");
  }
  logins_[identity::HashToken(cookie)] = {token_hash, until};
  has_changed_ = true;
}

void Logins::Remove(std::string_view cookie) {
  if (logins_.erase(identity::HashToken(cookie)) > 0) has_changed_ = true;
}

std::optional<std::string> Logins::Find(std::string_view cookie, WallTime now) const {
  const auto login = logins_.find(identity::HashToken(cookie));
  if (login == logins_.end() || login->second.until <= now) return std::nullopt;
  return login->second.token_hash;
}

void Logins::EndOldest(std::string_view token_hash) {
  auto oldest = logins_.end();
  for (auto login = logins_.begin(); login != logins_.end(); ++login) {
    if (!token_hash.empty() && login->second.token_hash != token_hash) continue;
    if (oldest == logins_.end() || login->second.until < oldest->second.until) oldest = login;
  }
  if (oldest != logins_.end()) logins_.erase(oldest);
}

}  // namespace espalier::controller
