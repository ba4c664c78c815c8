#pragma once

#include <string_view>

namespace espalier::controller {

// A file of controller/api/page as it was when this was built.
struct PageFile {
  std::string_view path;  // "/app.js"; "/" for index.html
  std::string_view content_type;
  std::string_view text;
};

// Null where there is no such file. Thread safety: any.
const PageFile* FindPageFile(std::string_view path);

}  // namespace espalier::controller
