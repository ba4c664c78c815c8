#include "controller/store/sqlite_database.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <utility>

#include "common/base/check.h"
#include "common/base/unique_fd.h"

namespace espalier::controller {
namespace {

constexpr int kBusyTimeoutMs = 2'000;  // another process may be copying or checking the file

struct Meaning {
  ErrorCode code;
  const char* remedy;
};

Meaning MeaningOf(int code) {
  // SQLite could not extend the index of the WAL to its full size: the disk is full.
  if (code == SQLITE_IOERR_SHMSIZE) code = SQLITE_FULL;
  switch (code & 0xff) {
    case SQLITE_FULL:
      return {ErrorCode::kResourceExhausted, "free space on its disk"};
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_CANTOPEN:
      return {ErrorCode::kPermissionDenied,
              "it and its folder must exist and be writable for this user"};
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return {
          ErrorCode::kFailedPrecondition,
          "it is damaged or not a database: replace it by a backup with espalier store restore"};
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {ErrorCode::kUnavailable, "another process uses it: stop that process first"};
    case SQLITE_IOERR:
      return {ErrorCode::kUnavailable, "its disk reports errors: see the kernel's log"};
    default:
      return {ErrorCode::kInternal, "this is a defect of Espalier: please report it"};
  }
}

tl::unexpected<Error> ErrorOf(sqlite3* database, const std::string& path) {
  const int code = sqlite3_extended_errcode(database);
  const Meaning meaning = MeaningOf(code);
  return Fail(meaning.code, fmt::format("{}: {} [{}] ({})", path, sqlite3_errmsg(database), code,
                                        meaning.remedy));
}

// Restricts the file to its owner, both a new one and one that an older version made, as its
// contents are confidential. The function does not open an existing file, because closing it would
// release the locks that SQLite holds on it in this process. Errors show when SQLite opens the
// file.
void KeepToOwner(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    const UniqueFd made(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    return;
  }
  if ((status.st_mode & 077) != 0) ::chmod(path.c_str(), status.st_mode & 0700);
}

}  // namespace

Statement::Statement(sqlite3* database, std::string path, sqlite3_stmt* statement)
    : database_(database), path_(std::move(path)), statement_(statement) {}

void Statement::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

Result<bool> Statement::Step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) {
    sqlite3_reset(statement_.get());
    return false;
  }
  auto error = ErrorOf(database_, path_);
  sqlite3_reset(statement_.get());
  return error;
}

Result<void> Statement::Run() {
  Result<bool> stepped = Step();
  if (!stepped) return Propagate(stepped);
  return {};
}

std::int64_t Statement::Integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

std::optional<std::int64_t> Statement::OptionalInteger(int column) const {
  if (sqlite3_column_type(statement_.get(), column) == SQLITE_NULL) return std::nullopt;
  return Integer(column);
}

std::string Statement::Text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column));
  return text != nullptr ? std::string(text, size) : std::string();
}

void Statement::Reset() { sqlite3_reset(statement_.get()); }

void Statement::BindAt(int index, std::int64_t value) {
  ESPALIER_CHECK(sqlite3_bind_int64(statement_.get(), index, value) == SQLITE_OK);
}

void Statement::BindAt(int index, const std::optional<std::int64_t>& value) {
  if (value) return BindAt(index, *value);
  ESPALIER_CHECK(sqlite3_bind_null(statement_.get(), index) == SQLITE_OK);
}

void Statement::BindAt(int index, std::string_view value) {
  // An empty view may have a null pointer, which SQLite would store as NULL.
  const char* text = value.empty() ? "" : value.data();
  ESPALIER_CHECK(sqlite3_bind_text64(statement_.get(), index, text, value.size(), SQLITE_TRANSIENT,
                                     SQLITE_UTF8) == SQLITE_OK);
}

void Database::Close::operator()(sqlite3* database) const { sqlite3_close_v2(database); }

tl::unexpected<Error> Database::LastError() const { return ErrorOf(database_.get(), path_); }

Result<Database> Database::Open(const std::string& path, const DatabaseOptions& options) {
  int flags = options.read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
  if (options.create && !options.read_only) flags |= SQLITE_OPEN_CREATE;
  if (options.create && !options.read_only && options.vfs == nullptr) KeepToOwner(path);
  sqlite3* opened = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &opened, flags | SQLITE_OPEN_NOMUTEX, options.vfs);
  Database database(path, opened);
  ESPALIER_CHECK(opened != nullptr, "out of memory");
  if (code != SQLITE_OK) return database.LastError();
  sqlite3_extended_result_codes(opened, 1);
  sqlite3_busy_timeout(opened, kBusyTimeoutMs);
  // With FULL, a commit waits until the WAL is on the disk.
  if (Result<void> set = database.Execute("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;"
                                          "PRAGMA cell_size_check = ON; PRAGMA trusted_schema = 0");
      !set) {
    return Propagate(set);
  }
  if (options.read_only) return database;
  Result<std::string> mode = database.ReadText("PRAGMA journal_mode = WAL");
  if (!mode) return Propagate(mode);
  if (*mode != "wal") {
    return Fail(
        ErrorCode::kUnsupported,
        fmt::format(
            "{}: its file system does not support shared memory, which a write-ahead log needs "
            "(keep the store on a local disk)",
            path));
  }
  return database;
}

Result<void> Database::Execute(const std::string& sql) {
  if (sqlite3_exec(database_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    return LastError();
  }
  return {};
}

Result<Statement> Database::Prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(database_.get(), sql.data(), static_cast<int>(sql.size()), &statement,
                         nullptr) != SQLITE_OK) {
    return LastError();
  }
  return Statement(database_.get(), path_, statement);
}

Result<std::int64_t> Database::ReadInteger(std::string_view sql) {
  Result<std::string> text = ReadText(sql);
  if (!text) return Propagate(text);
  return std::strtoll(text->c_str(), nullptr, 10);
}

Result<std::string> Database::ReadText(std::string_view sql) {
  Result<Statement> statement = Prepare(sql);
  if (!statement) return Propagate(statement);
  Result<bool> row = statement->Step();
  if (!row) return Propagate(row);
  if (!*row) return Fail(ErrorCode::kInternal, fmt::format("{}: no row for {}", path_, sql));
  return statement->Text(0);
}

Result<void> Database::Transact(const std::function<Result<void>()>& work) {
  Result<void> result = Execute("BEGIN IMMEDIATE");
  if (!result) return result;
  result = work();
  if (result) result = Execute("COMMIT");
  // After some errors SQLite has rolled back by itself.
  if (!result && sqlite3_get_autocommit(database_.get()) == 0) {
    sqlite3_exec(database_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
  }
  return result;
}

Result<void> Database::CheckStructure() {
  Result<std::string> verdict = ReadText("PRAGMA quick_check(1)");
  if (!verdict) return Propagate(verdict);
  if (*verdict == "ok") return {};
  return Fail(ErrorCode::kFailedPrecondition,
              fmt::format("{}: is damaged: {} (replace it by a backup with espalier store restore)",
                          path_, *verdict));
}

Result<void> Database::CopyTo(const std::string& path) {
  KeepToOwner(path);
  Result<Statement> copy = Prepare("VACUUM INTO ?");
  if (!copy) return Propagate(copy);
  return copy->Bind(std::string_view(path)).Run();
}

}  // namespace espalier::controller
