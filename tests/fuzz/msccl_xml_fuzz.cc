#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "collective/program/files/format_msccl_xml.h"
#include "collective/program/files/parse_msccl_xml.h"
#include "collective/program/files/program_file.h"
#include "collective/program/verifier/verifier.h"
#include "common/base/check.h"
#include "common/base/result.h"

namespace {

espalier::Result<espalier::program::Program> ParseJson(std::string_view text,
                                                       std::string_view name) {
  auto read = espalier::program::ParseAndVerify(text, name, {.budget = 1 << 20});
  if (!read) return espalier::Propagate(read);
  if (read->program.ranks.empty()) {  // an execution plan that was refused
    return espalier::Fail(espalier::ErrorCode::kInvalidArgument, "f: refused");
  }
  return std::move(read->program);
}

}  // namespace

// Arbitrary bytes as a program give an error with its place, or a program that both own formats
// read back. The verifier handles it safely, and a program that it accepts can be written for MSCCL
// or is refused with an error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace program = espalier::program;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto read =
      text.starts_with('{') ? ParseJson(text, "f") : program::ParseMscclXml(text, "f");
  if (!read) {
    ESPALIER_CHECK(read.error().message.starts_with("f:"), "{}", read.error().message);
    return 0;
  }
  const auto again = ParseJson(program::FormatProgramJson(*read), "again");
  // Names may contain bytes that JSON cannot represent.
  ESPALIER_CHECK(!again || *again == *read);
  const program::Verdict verdict = program::Verify(*read, {.fifo_slots = 2, .budget = 1 << 20});
  if (verdict.violation) return 0;
  program::MeasureCost(*read);
  const auto written = program::FormatMscclXml(*read);
  if (!written) return 0;
  const auto reread = program::ParseMscclXml(*written, "written");
  ESPALIER_CHECK(reread.has_value(), "{}", reread.error().message);
  ESPALIER_CHECK(!program::Verify(*reread, {.budget = 1 << 21}).violation);
  return 0;
}
