#include "tests/tidy/source_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace espalier::tidy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kGuard = "#pragma once\n";

SourceFile Header(const std::string& path, const std::string& rest = "") {
  return {path, kGuard + rest};
}

TEST(SourceRules, FindNothingInAGoodTree) {
  EXPECT_THAT(FindViolations(
                  {Header("common/base/units.h", "#include <string>\n"),
                   Header("common/fabric/topology.h", "#include \"common/base/units.h\"\n"),
                   {"common/bus/bus.cc", "#include <zmq.hpp>\n#include \"common/base/units.h\"\n"},
                   {"agent/main.cc", "#include \"common/bus/bus.h\"\n"},
                   Header("common/bus/bus.h"),
                   {"agent/local/client.h", "#ifndef ESPALIER_CLIENT_H\n"},
                   {"proto/decode.cc", "#include \"proto/messages.pb.h\"\n"}}),
              IsEmpty());
}

TEST(SourceRules, KeepTheLayersApart) {
  const std::vector<SourceFile> others = {
      Header("common/base/units.h"), Header("common/files/json.h"),
      Header("controller/controller.h"), Header("agent/agent.h"),
      Header("controller/store/store.h")};
  const auto violations_of = [&](const std::string& path, const std::string& included) {
    std::vector<SourceFile> files = others;
    files.push_back({path, "#include \"" + included + "\"\n"});
    return FindViolations(files);
  };
  EXPECT_THAT(violations_of("controller/routing/assigner.cc", "common/files/json.h"),
              ElementsAre("controller/routing/assigner.cc:1: controller/routing/ must not include "
                          "common/files/"));
  EXPECT_THAT(violations_of("agent/agent.cc", "controller/controller.h"),
              ElementsAre(HasSubstr("agent/ must not include controller/")));
  EXPECT_THAT(violations_of("controller/state/flows/flow_table.cc", "agent/agent.h"),
              ElementsAre(HasSubstr("controller/state/ must not include agent/")));
  EXPECT_THAT(violations_of("agent/agent.cc", "common/files/json.h"),
              ElementsAre(HasSubstr("agent/ must not include common/files/")));
  EXPECT_THAT(violations_of("common/base/units.cc", "common/files/json.h"),
              ElementsAre(HasSubstr("common/base/ must not include common/files/")));
  EXPECT_THAT(violations_of("controller/controller.cc", "controller/store/store.h"), IsEmpty());
  EXPECT_THAT(violations_of("newcomer/code.cc", "common/base/units.h"),
              ElementsAre(HasSubstr("newcomer/code.cc belongs to no layer")));
}

TEST(SourceRules, FindLayersThatIncludeUpward) {
  const std::vector<Layer> layers = {{"a/", {}}, {"b/", {"a/", "c/"}}, {"c/", {"a/", "d/"}}};
  EXPECT_THAT(FindUpwardArrows(layers),
              ElementsAre("b/ may include c/, which is not above it in the table",
                          "c/ may include d/, which is not above it in the table"));
}

TEST(SourceRules, FindIncludesThatAreNotFromTheRoot) {
  EXPECT_THAT(FindViolations({Header("common/base/units.h"),
                              {"common/base/units.cc", "// Units.\n#include \"units.h\"\n"}}),
              ElementsAre("common/base/units.cc:2: \"units.h\" is not a file, seen from the root"));
}

TEST(SourceRules, KeepHeavyLibrariesOutOfHeaders) {
  for (const char* include :
       {"<boost/asio.hpp>", "<google/protobuf/message.h>", "<spdlog/spdlog.h>", "<zmq.hpp>",
        "<rapidjson/reader.h>", "<prometheus/counter.h>", "\"common/base/x.pb.h\""}) {
    EXPECT_THAT(FindViolations({Header("common/base/log.h", "#include " + std::string(include))}),
                ElementsAre(HasSubstr("in a header")))
        << include;
    EXPECT_THAT(FindViolations({{"common/base/log.cc", "#include " + std::string(include)}}),
                IsEmpty())
        << include;
  }
}

TEST(SourceRules, FindWhatWasLeftBehind) {
  const std::string to_do = std::string("// TO") + "DO: later\n";
  const std::string home = std::string("/wo") + "rk/here";
  EXPECT_THAT(FindViolations({{"docs/a.md", "fine\n" + to_do},
                              {"deploy/setup", "cd " + home},
                              {"cmake/x.cmake", "if()\n\tendif()\n"}}),
              ElementsAre(HasSubstr("docs/a.md:2: has"), HasSubstr("deploy/setup:1: has"),
                          "cmake/x.cmake:2: a tab"));
}

TEST(SourceRules, LimitTheLengthOfFiles) {
  const auto lines = [](int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += "\n";
    return text;
  };
  EXPECT_THAT(FindViolations({{"agent/a.cc", lines(500)}, {"agent/main.cc", lines(150)}}),
              IsEmpty());
  EXPECT_THAT(
      FindViolations({{"agent/a.cc", lines(501)}, {"agent/main.cc", lines(151)}}),
      ElementsAre("agent/a.cc:501: more than 500 lines", "agent/main.cc:151: more than 150 lines"));
}

TEST(SourceRules, WantAGuardInEveryHeader) {
  EXPECT_THAT(FindViolations({{"agent/a.h", "int x;\n"}}),
              ElementsAre("agent/a.h:1: no #pragma once"));
}

}  // namespace
}  // namespace espalier::tidy
