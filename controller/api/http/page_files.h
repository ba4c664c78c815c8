#pragma once

#include <string_view>

namespace espalier::controller {

// A file of controller/api/page, compiled in at build time.
struct PageFile {
  std::string_view path;  // "/app.js"; "/" for index.html
  std::string_view content_type;
  std::string_view text;
};

// Null for an unknown file. Thread safety: any thread.
const PageFile* FindPageFile(std::string_view path);

}  // namespace espalier::controller
