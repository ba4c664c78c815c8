# cmake -DOUTPUT=out.cc -DFILES=a;b -P embed.cmake
# Writes C++ code that contains these text files, for controller/api/http/page_files.h.
set(entries "")
foreach(file IN LISTS FILES)
  file(READ ${file} text)
  get_filename_component(name ${file} NAME)
  get_filename_component(extension ${file} LAST_EXT)
  if(name STREQUAL "index.html")
    set(path "/")
  else()
    set(path "/${name}")
  endif()
  if(extension STREQUAL ".html")
    set(type "text/html; charset=utf-8")
  elseif(extension STREQUAL ".css")
    set(type "text/css; charset=utf-8")
  elseif(extension STREQUAL ".js")
    set(type "text/javascript; charset=utf-8")
  elseif(extension STREQUAL ".svg")
    set(type "image/svg+xml")
  else()
    set(type "application/json")
  endif()
  string(APPEND entries "    {\"${path}\", \"${type}\", R\"embedded(${text})embedded\"sv},\n")
endforeach()
file(WRITE ${OUTPUT} "#include \"controller/api/http/page_files.h\"

namespace espalier::controller {
namespace {

// The literals have their lengths with them: to count a large one exceeds a compiler's limit of steps.
using namespace std::string_view_literals;

constexpr PageFile kFiles[] = {
${entries}};

}  // namespace

const PageFile* FindPageFile(std::string_view path) {
  for (const PageFile& file : kFiles) {
    if (file.path == path) return &file;
  }
  return nullptr;
}

}  // namespace espalier::controller
")
