#include <cstddef>
#include <cstdint>
#include <string_view>

#include "collective/program/files/program_file.h"
#include "collective/program/verifier/verifier.h"
#include "common/base/check.h"

// Arbitrary bytes as an execution plan of MSCCL++ give an error with its place, a violation in
// words, or a plan that is lowered to a program. What is accepted is accepted again in the
// project's own format.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace program = espalier::program;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto read = program::ParseAndVerify(text, "f", {.fifo_slots = 2, .budget = 1 << 20});
  if (!read) {
    ESPALIER_CHECK(read.error().message.starts_with("f:"), "{}", read.error().message);
    return 0;
  }
  if (read->verdict.violation) {
    ESPALIER_CHECK(!read->verdict.violation->message.empty());
    return 0;
  }
  const auto again = program::ParseAndVerify(program::FormatProgramJson(read->program), "again",
                                             {.fifo_slots = 2, .budget = 1 << 21});
  // Names may contain bytes that JSON cannot represent.
  ESPALIER_CHECK(!again || (again->program == read->program && !again->verdict.violation));
  return 0;
}
