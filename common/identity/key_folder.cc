#include "common/identity/key_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "common/files/file.h"
#include "common/identity/key_files.h"

namespace espalier::identity {
namespace {

constexpr const char* kController = "controller";
constexpr std::size_t kMaxNameBytes = 255;

bool Exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

Result<void> MakeFolder(const std::string& path, mode_t mode) {
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  if (::mkdir(path.c_str(), mode) == 0 || errno == EEXIST) return {};
  const int error = errno;
  return Fail(
      error == EACCES || error == EROFS ? ErrorCode::kPermissionDenied : ErrorCode::kUnavailable,
      fmt::format("{}: cannot create the folder: {}", path, std::strerror(error)));
}

Result<void> CheckName(const std::string& name) {
  const bool is_visible =
      std::all_of(name.begin(), name.end(), [](unsigned char c) { return c > 0x20 && c <= 0x7e; });
  if (!name.empty() && name.size() <= kMaxNameBytes && is_visible) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("\"{}\": a name has 1 to {} visible characters", name, kMaxNameBytes));
}

// Encodes characters of a name that would lead to another folder.
std::string FileNameOf(const std::string& name) {
  std::string file;
  for (const char c : name) {
    const bool is_plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' ||
                          c == '_' || (c == '.' && !file.empty());
    file += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return file + ".key";
}

Result<void> WriteKey(const std::string& path, const std::string& name, const io::CurveKeys& keys,
                      WallTime now) {
  return io::WriteFileDurably(path, FormatKeyFile({name, keys, now}), io::Readers::kOwner);
}

}  // namespace

Result<KeyFolder> KeyFolder::Open(const std::string& path) {
  if (Result<void> made = MakeFolder(path, 0755); !made) return Propagate(made);
  UniqueFd lock(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("{}: {}", path,
                            errno == EWOULDBLOCK ? "another command is changing it (try again)"
                                                 : std::strerror(errno)));
  }
  KeyFolder folder(path, std::move(lock));
  if (Exists(folder.PathOf("agents.pub"))) {
    Result<KeyRing> ring = KeyRing::Read(folder.PathOf("agents.pub"));
    if (!ring) return Propagate(ring);
    folder.ring_ = std::move(*ring);
  }
  if (Exists(folder.PathOf("tokens"))) {
    Result<AccessTokens> tokens = AccessTokens::Read(folder.PathOf("tokens"));
    if (!tokens) return Propagate(tokens);
    folder.tokens_ = std::move(*tokens);
  }
  return folder;
}

Result<void> KeyFolder::MakeController(WallTime now) {
  const std::string path = PathOf("controller.key");
  if (Exists(path)) {
    return Fail(ErrorCode::kAlreadyExists,
                fmt::format("{}: the controller has a key already (replace it with: espalier keys "
                            "rotate --controller)",
                            path));
  }
  const io::CurveKeys keys = io::MakeCurveKeys();
  Result<void> written =
      io::WriteFileDurably(PathOf("controller.pub"), FormatControllerKeys({keys.public_key}));
  if (written && !Exists(PathOf("agents.pub"))) written = StoreRing(ring_);
  if (written) written = WriteKey(path, kController, keys, now);
  return written;
}

Result<std::vector<std::string>> KeyFolder::MakeAgents(const std::vector<std::string>& names,
                                                       WallTime now) {
  for (const std::string& name : names) {
    if (Result<void> checked = CheckName(name); !checked) return Propagate(checked);
    if (ring_.HasGoodKey(name, now) || std::ranges::count(names, name) > 1) {
      return Fail(ErrorCode::kAlreadyExists,
                  fmt::format("agent {} has a key already (rotate it, or revoke it first)", name));
    }
  }
  KeyRing ring = ring_;
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    Result<std::string> path = AddAgentKey(name, ring, now);
    if (!path) return Propagate(path);
    paths.push_back(std::move(*path));
  }
  if (Result<void> stored = StoreRing(std::move(ring)); !stored) return Propagate(stored);
  return paths;
}

Result<std::string> KeyFolder::RotateAgent(const std::string& name, WallTime old_until,
                                           WallTime now) {
  KeyRing ring = ring_;
  if (ring.LimitUntil(name, old_until, now) == 0) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("agent {} has no key (create one with: espalier keys make)", name));
  }
  Result<std::string> path = AddAgentKey(name, ring, now);
  if (!path) return path;
  if (Result<void> stored = StoreRing(std::move(ring)); !stored) return Propagate(stored);
  return path;
}

Result<std::string> KeyFolder::AddAgentKey(const std::string& name, KeyRing& ring, WallTime now) {
  if (Result<void> made = MakeFolder(PathOf("agents"), 0700); !made) return Propagate(made);
  const io::CurveKeys keys = io::MakeCurveKeys();
  if (Result<void> added = ring.Add({name, keys.public_key, now, {}, {}}); !added) {
    return Propagate(added);
  }
  const std::string path = PathOf("agents/" + FileNameOf(name));
  if (Result<void> written = WriteKey(path, name, keys, now); !written) return Propagate(written);
  return path;
}

Result<void> KeyFolder::RevokeAgent(const std::string& name, WallTime now) {
  KeyRing ring = ring_;
  if (ring.Revoke(name, now) == 0) {
    return Fail(ErrorCode::kNotFound, fmt::format("agent {} has no valid key", name));
  }
  ::unlink(PathOf("agents/" + FileNameOf(name)).c_str());
  return StoreRing(std::move(ring));
}

Result<void> KeyFolder::PrepareController(WallTime now) {
  const Result<KeyFile> present = ReadKeyFile(PathOf("controller.key"));
  if (!present) return tl::unexpected<Error>(present.error());
  const std::string next = PathOf("controller.next.key");
  if (Exists(next)) {
    return Fail(
        ErrorCode::kFailedPrecondition,
        fmt::format("{}: the next key exists already (give controller.pub to all agents, then "
                    "rotate with --finish)",
                    next));
  }
  const io::CurveKeys keys = io::MakeCurveKeys();
  if (Result<void> written = WriteKey(next, kController, keys, now); !written) return written;
  return io::WriteFileDurably(PathOf("controller.pub"),
                              FormatControllerKeys({present->keys.public_key, keys.public_key}));
}

Result<void> KeyFolder::FinishController() {
  const std::string next = PathOf("controller.next.key");
  if (!Exists(next)) {
    return Fail(ErrorCode::kFailedPrecondition,
                fmt::format("{}: there is no next key (rotate without --finish first)", next));
  }
  const Result<KeyFile> keys = ReadKeyFile(next);
  if (!keys) return tl::unexpected<Error>(keys.error());
  if (Result<void> written =
          io::WriteFileDurably(PathOf("controller.key"), FormatKeyFile(*keys), io::Readers::kOwner);
      !written) {
    return written;
  }
  ::unlink(next.c_str());
  return io::WriteFileDurably(PathOf("controller.pub"),
                              FormatControllerKeys({keys->keys.public_key}));
}

Result<std::string> KeyFolder::MakeToken(const std::string& name, Role role,
                                         std::optional<WallTime> until, WallTime now) {
  if (Result<void> checked = CheckName(name); !checked) return Propagate(checked);
  std::string token = identity::MakeToken();
  AccessTokens tokens = tokens_;
  Result<void> added = tokens.Add({name, role, HashToken(token), now, until});
  if (added) added = StoreTokens(std::move(tokens));
  if (!added) return Propagate(added);
  return token;
}

Result<void> KeyFolder::RevokeToken(const std::string& name) {
  AccessTokens tokens = tokens_;
  if (!tokens.Remove(name)) {
    return Fail(ErrorCode::kNotFound, fmt::format("{} has no token", name));
  }
  return StoreTokens(std::move(tokens));
}

Result<void> KeyFolder::StoreRing(KeyRing ring) {
  Result<void> written = io::WriteFileDurably(PathOf("agents.pub"), ring.Format());
  if (written) ring_ = std::move(ring);
  return written;
}

Result<void> KeyFolder::StoreTokens(AccessTokens tokens) {
  Result<void> written =
      io::WriteFileDurably(PathOf("tokens"), tokens.Format(), io::Readers::kOwner);
  if (written) tokens_ = std::move(tokens);
  return written;
}

}  // namespace espalier::identity
