#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace espalier::controller {

// A prepared statement, which can be bound and stepped through repeatedly.
// Binding and reading cannot fail; Step reports errors.
class Statement {
 public:
  Statement(sqlite3* database, std::string path, sqlite3_stmt* statement);

  // Sets all parameters in order, and starts the statement again.
  template <typename... Values>
  Statement& Bind(const Values&... values) {
    Reset();
    int index = 0;
    (BindAt(++index, values), ...);
    return *this;
  }
  // True: the next row can be read; false: there are no more rows.
  Result<bool> Step();
  // Runs a statement that returns no rows.
  Result<void> Run();

  std::int64_t Integer(int column) const;
  std::optional<std::int64_t> OptionalInteger(int column) const;
  std::string Text(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  void Reset();
  void BindAt(int index, std::int64_t value);
  void BindAt(int index, const std::optional<std::int64_t>& value);
  void BindAt(int index, std::string_view value);

  sqlite3* database_;
  std::string path_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

struct DatabaseOptions {
  bool create = true;         // false: kNotFound if the file is missing
  bool read_only = false;     // (a database with a remaining WAL still needs write access)
  const char* vfs = nullptr;  // SQLite's file system; nullptr: the default one
};

// A connection to an SQLite database in WAL mode; a commit that succeeds is on the disk.
// Errors name the file, the cause and the remedy: kResourceExhausted (disk full),
// kPermissionDenied, kUnavailable (input/output error, or in use), kFailedPrecondition (damaged,
// or not a database), kNotFound.
// Thread safety: one thread at a time.
class Database {
 public:
  static Result<Database> Open(const std::string& path, const DatabaseOptions& options = {});

  Result<void> Execute(const std::string& sql);
  Result<Statement> Prepare(std::string_view sql);
  // The first column of the first row; kInternal without a row.
  Result<std::int64_t> ReadInteger(std::string_view sql);
  Result<std::string> ReadText(std::string_view sql);
  // Runs `work` between BEGIN and COMMIT; if `work` or the commit fails, nothing has changed.
  Result<void> Transact(const std::function<Result<void>()>& work);
  // Runs SQLite's check of the file's structure. Errors: kFailedPrecondition with the damage.
  Result<void> CheckStructure();
  // Copies all committed data to one new file without WAL.
  Result<void> CopyTo(const std::string& path);

  const std::string& path() const { return path_; }

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  Database(std::string path, sqlite3* database) : path_(std::move(path)), database_(database) {}
  tl::unexpected<Error> LastError() const;

  std::string path_;
  std::unique_ptr<sqlite3, Close> database_;
};

}  // namespace espalier::controller
