#include "deploy/lab/lab_registry.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <system_error>

#include "common/files/file.h"
#include "common/files/json.h"
#include "common/files/json_fields.h"
#include "common/files/json_writer.h"
#include "common/os/os_error.h"
#include "deploy/lab/namespaces.h"

namespace espalier::lab {
namespace {

constexpr std::int64_t kMaxInteger = std::int64_t{1} << 53;

// Field 22 of /proc/PID/stat; empty if the process does not exist or is a zombie.
std::string StartTime(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');  // the name may contain any character
  if (name_end == std::string::npos) return "";
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  fields >> field;
  if (field == "Z" || field == "X") return "";
  for (int i = 4; i <= 22; ++i) fields >> field;
  return field;
}

std::string FormatRecord(const LabRecord& record) {
  const LabOptions& options = record.options;
  io::JsonWriter json(/*pretty=*/true);
  json.BeginObject();
  json.Key("name").String(options.name);
  json.Key("pid").Integer(record.pid);
  json.Key("started").String(record.started);
  json.Key("token").String(record.token);
  json.Key("spines").Integer(options.spines);
  json.Key("leaves").Integer(options.leaves);
  json.Key("hosts_per_leaf").Integer(options.hosts_per_leaf);
  json.Key("rails").Integer(options.rails);
  json.Key("uplinks").Integer(options.uplinks);
  json.Key("gpus").Integer(options.gpus);
  json.Key("planes").Integer(options.planes);
  json.Key("pods").Integer(options.pods);
  json.Key("cores").Integer(options.cores);
  json.Key("hash_seeds").Integer(static_cast<int>(options.hash_seeds));
  json.Key("routing").Integer(static_cast<int>(options.routing));
  json.Key("link_bps").Integer(options.link_rate ? options.link_rate->value : 0);
  json.Key("icmp_limits").Bool(options.icmp_limits);
  json.Key("seed").String(fmt::format("{}", options.seed));
  json.Key("ipv6").Bool(options.ipv6);
  json.Key("hash_hint").Bool(options.hash_hint);
  json.EndObject();
  return json.Text();
}

Result<LabRecord> ParseRecord(const std::string& path) {
  Result<std::string> text = io::ReadFile(path);
  if (!text) return Propagate(text);
  Result<io::JsonValue> json = io::ParseJson(*text, path);
  if (!json) return Propagate(json);
  io::JsonFields fields(*json, path);
  LabRecord record;
  LabOptions& options = record.options;
  options.name = fields.RequiredString("name");
  record.pid = static_cast<pid_t>(fields.Integer("pid", 0, 1, std::numeric_limits<pid_t>::max()));
  record.started = fields.RequiredString("started");
  record.token = fields.RequiredString("token");
  options.spines = static_cast<int>(fields.Integer("spines", 1, 1, 1024));
  options.leaves = static_cast<int>(fields.Integer("leaves", 1, 1, 1024));
  options.hosts_per_leaf = static_cast<int>(fields.Integer("hosts_per_leaf", 1, 1, 1024));
  options.rails = static_cast<int>(fields.Integer("rails", 1, 1, 1024));
  options.uplinks = static_cast<int>(fields.Integer("uplinks", 1, 1, 1024));
  options.gpus = static_cast<int>(fields.Integer("gpus", 0, 0, 1024));
  options.planes = static_cast<int>(fields.Integer("planes", 1, 1, 1024));
  options.pods = static_cast<int>(fields.Integer("pods", 0, 0, 1024));
  options.cores = static_cast<int>(fields.Integer("cores", 0, 0, 1024));
  options.hash_seeds = static_cast<HashSeeds>(fields.Integer("hash_seeds", 0, 0, 2));
  options.routing = static_cast<Routing>(fields.Integer("routing", 0, 0, 1));
  const std::int64_t rate = fields.Integer("link_bps", 0, 0, kMaxInteger);
  if (rate > 0) options.link_rate = BitsPerSecond{rate};
  options.icmp_limits = fields.Bool("icmp_limits", false);
  options.seed = std::strtoull(fields.RequiredString("seed").c_str(), nullptr, 10);
  options.ipv6 = fields.Bool("ipv6", false);
  options.hash_hint = fields.Bool("hash_hint", false);
  if (Result<void> finished = fields.Finish(); !finished) return Propagate(finished);
  record.alive = !record.started.empty() && StartTime(record.pid) == record.started;
  return record;
}

}  // namespace

Result<LabRegistry> LabRegistry::Open() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  const bool has_runtime = runtime != nullptr && *runtime == '/';
  const std::string base = has_runtime ? fmt::format("{}/espalier", runtime)
                                       : fmt::format("/tmp/espalier-{}", ::geteuid());
  if (::mkdir(base.c_str(), 0700) != 0 && errno != EEXIST) return FailErrno(base, errno);
  struct stat status {};
  if (::lstat(base.c_str(), &status) != 0) return FailErrno(base, errno);
  if (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid()) {
    return Fail(ErrorCode::kPermissionDenied,
                fmt::format("{}: the folder does not belong to this user (remove it)", base));
  }
  const std::string root = base + "/labs";
  if (::mkdir(root.c_str(), 0700) != 0 && errno != EEXIST) return FailErrno(root, errno);
  return LabRegistry(root);
}

std::vector<LabRecord> LabRegistry::List() const {
  std::vector<LabRecord> records;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(root_, ignored)) {
    if (!entry.is_directory(ignored)) continue;
    Result<LabRecord> record = ParseRecord(entry.path().string() + "/lab.json");
    if (record) records.push_back(std::move(*record));
  }
  std::sort(records.begin(), records.end(),
            [](const LabRecord& a, const LabRecord& b) { return a.options.name < b.options.name; });
  return records;
}

Result<LabRecord> LabRegistry::Find(const std::string& name) const {
  Result<LabRecord> record = ParseRecord(Folder(name) + "/lab.json");
  if (record || record.error().code != ErrorCode::kNotFound) return record;
  std::string known;
  for (const LabRecord& other : List()) known += (known.empty() ? "" : ", ") + other.options.name;
  return Fail(ErrorCode::kNotFound,
              fmt::format("no lab named '{}' ({})", name,
                          known.empty() ? "none is up: espalier lab up" : "labs: " + known));
}

Result<UniqueFd> LabRegistry::Claim(const std::string& name) const {
  const std::string path = root_ + "/.lock";
  UniqueFd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock || ::flock(lock.get(), LOCK_EX) != 0) return FailErrno(path, errno);
  const Result<LabRecord> present = ParseRecord(Folder(name) + "/lab.json");
  if (present && present->alive) {
    return Fail(ErrorCode::kAlreadyExists,
                fmt::format("a lab named '{}' is up (process {}); end it with: espalier lab down "
                            "--name {}",
                            name, present->pid, name));
  }
  Remove(name);
  if (::mkdir(Folder(name).c_str(), 0700) != 0) return FailErrno(Folder(name), errno);
  return lock;
}

Result<void> LabRegistry::Write(LabRecord record) const {
  record.started = StartTime(record.pid);
  return io::WriteFileDurably(Folder(record.options.name) + "/lab.json", FormatRecord(record));
}

void LabRegistry::Remove(const std::string& name) const {
  std::error_code ignored;
  std::filesystem::remove_all(Folder(name), ignored);
}

}  // namespace espalier::lab
