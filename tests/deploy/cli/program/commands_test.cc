#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <string>

#include "common/files/file.h"
#include "common/files/json.h"
#include "deploy/cli/program/program_commands.h"
#include "tests/deploy/cli/run_command.h"
#include "tests/temporary_folder.h"

namespace espalier::program {
namespace {

using cli::Outcome;
using testing::HasSubstr;
using testing::StartsWith;

class ProgramCommands : public testing::Test {
 protected:
  // The words after `espalier program`.
  static Outcome Run(const std::string& arguments) {
    return cli::RunCommand(AddProgramCommands, "program " + arguments);
  }
  std::string Path(const std::string& name) const { return temporary_.path() + "/" + name; }

 private:
  TemporaryFolder temporary_;
};

TEST_F(ProgramCommands, MakeConvertAndVerifyFitTogether) {
  const std::string json = Path("p.json");
  const std::string xml = Path("p.xml");
  EXPECT_EQ(Run("make allreduce-bcube --ranks 6 --base 3 -o " + json).code, 0);
  EXPECT_EQ(Run("convert --to msccl-xml " + json + " -o " + xml).code, 0);
  for (const std::string& file : {json, xml}) {
    const Outcome verified = Run("verify " + file);
    EXPECT_EQ(verified.code, 0) << verified.errors;
    EXPECT_THAT(verified.output, HasSubstr("correct: allreduce of 6 ranks, FIFO depth 2 suffices"));
  }
  EXPECT_THAT(Run("convert --to json " + xml).output, StartsWith("{\"name\":\"allreduce-bcube\""));
  EXPECT_THAT(Run("show " + json).output, HasSubstr("latency      4 steps of communication"));
}

TEST_F(ProgramCommands, WriteOneJsonObject) {
  const std::string file = Path("p.json");
  ASSERT_EQ(Run("make broadcast-one-to-all --ranks 3 --root 2 -o " + file).code, 0);
  const auto shown = io::ParseJson(Run("show --json " + file).output, "shown");
  ASSERT_TRUE(shown.has_value()) << shown.error().message;
  EXPECT_EQ(shown->Find("total_chunks_sent")->text, "2");
  EXPECT_EQ(shown->Find("communication_steps")->text, "1");
  EXPECT_EQ(shown->Find("root")->text, "2");
  const auto verified = io::ParseJson(Run("verify --json " + file).output, "verified");
  ASSERT_TRUE(verified.has_value()) << verified.error().message;
  EXPECT_TRUE(verified->Find("valid")->boolean);
}

// A tool wrote files for no size, which were never used, and nothing said so.
TEST_F(ProgramCommands, SayWhichCallsAFileServes) {
  const std::string file = Path("p.json");
  const auto make = [&](const std::string& sizes) {
    const Outcome made = Run("make allreduce-ring-chunked --ranks 4");
    std::string text = made.output;
    const std::size_t from = text.find("\"min_bytes\"");
    const std::size_t to = text.find(',', text.find("\"max_bytes\""));
    text.replace(from, to - from, sizes);
    ASSERT_TRUE(io::WriteFileDurably(file, text).has_value());
  };
  const struct {
    const char* sizes;
    const char* words;
    bool serves;
  } cases[] = {{R"("min_bytes":0,"max_bytes":0)", "serves only empty calls", false},
               {R"("min_bytes":9,"max_bytes":8)", "serves no call", false},
               {R"("min_bytes":8,"max_bytes":64)", "serves calls of 8 to 64 bytes", true}};
  for (const auto& one : cases) {
    make(one.sizes);
    EXPECT_THAT(Run("verify " + file).output, HasSubstr(one.words));
    EXPECT_THAT(Run("show " + file).output, HasSubstr(std::string("sizes        ") + one.words));
    const auto verified = io::ParseJson(Run("verify --json " + file).output, "verified");
    ASSERT_TRUE(verified.has_value()) << verified.error().message;
    EXPECT_EQ(verified->Find("serves_calls")->boolean, one.serves);
    EXPECT_THAT(verified->Find("serves")->text, StartsWith(one.words));
  }
}

TEST_F(ProgramCommands, RefuseWrongProgramsWithOne) {
  const std::string file = Path("p.json");
  ASSERT_EQ(Run("make allreduce-ring-chunked --ranks 3 --fifo-depth 4 -o " + file).code, 0);
  const Outcome verified = Run("verify --fifo-depth 1 " + file);
  EXPECT_EQ(verified.code, 1);
  EXPECT_THAT(verified.errors, StartsWith("espalier: " + file + ": deadlock: rank 0 block 0"));
  const auto json = io::ParseJson(Run("verify --json --fifo-depth 1 " + file).output, "verified");
  ASSERT_TRUE(json.has_value());
  EXPECT_EQ(json->Find("violation")->Find("kind")->text, "deadlock");
  // Right with four slots, but MSCCL has two.
  const Outcome converted = Run("convert --to msccl-xml --fifo-depth 4 " + file);
  EXPECT_EQ(converted.code, 1);
  EXPECT_THAT(converted.errors, HasSubstr("with the 2 slots of a connection in MSCCL: deadlock"));
  EXPECT_EQ(converted.output, "");
}

TEST_F(ProgramCommands, RefuseBadUsageAndInputWithTwo) {
  const std::string file = Path("bad.json");
  ASSERT_TRUE(io::WriteFileDurably(file, "{\n \"nam\": 1}").has_value());
  const Outcome verified = Run("verify " + file);
  EXPECT_EQ(verified.code, 2);
  EXPECT_THAT(verified.errors, StartsWith("espalier: " + file + ":"));
  EXPECT_EQ(Run("verify " + Path("nowhere")).code, 2);
  EXPECT_EQ(Run("make magic --ranks 2").code, 2);
  EXPECT_EQ(Run("make allreduce-ring").code, 2);
  EXPECT_EQ(Run("make allreduce-ring --ranks 2 --fifo-depth 0").code, 2);
  EXPECT_EQ(Run("make allreduce-bcube --ranks 7 --base 2").code, 2);
  EXPECT_EQ(Run("make allreduce-ring --ranks 2 --to yaml").code, 2);
  const Outcome unused = Run("make allreduce-ring --ranks 2 --root 1");
  EXPECT_EQ(unused.code, 2);
  EXPECT_THAT(unused.errors, testing::HasSubstr("allreduce-ring does not take --root"));
  EXPECT_EQ(Run("make broadcast-binomial --ranks 2 --root 1").code, 0);
  EXPECT_EQ(Run("").code, 2);
  EXPECT_EQ(Run("make --help").code, 0);
}

}  // namespace
}  // namespace espalier::program
