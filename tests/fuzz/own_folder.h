#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "common/base/check.h"

namespace espalier::fuzz {

// A temporary folder that is removed with its object. (tests/temporary_folder.h needs GoogleTest.)
class OwnFolder {
 public:
  OwnFolder() {
    std::string name = std::filesystem::temp_directory_path() / "espalier-fuzz-XXXXXX";
    ESPALIER_CHECK(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~OwnFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace espalier::fuzz
