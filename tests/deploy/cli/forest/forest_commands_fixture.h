#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <map>
#include <set>
#include <sstream>

#include "common/fabric/accelerator_builders.h"
#include "common/fabric/builders.h"
#include "common/files/file.h"
#include "common/files/json.h"
#include "common/files/topology_file.h"
#include "controller/offline/evaluation/solver.h"
#include "deploy/cli/forest/forest_commands.h"
#include "deploy/cli/forest/stage_watch.h"
#include "tests/deploy/cli/run_command.h"
#include "tests/temporary_folder.h"

namespace espalier::forest {

using cli::Outcome;
using io::JsonValue;
using testing::HasSubstr;
using testing::StartsWith;

class ForestCommands : public testing::Test {
 protected:
  // The words after `espalier forest`.
  Outcome Run(const std::string& arguments) const {
    return cli::RunCommand(
        [](CLI::App& app, int& exit_code) {
          AddForestCommands(app, exit_code, offline::SolveWithCbc);
        },
        "forest " + arguments);
  }
  std::string Path(const std::string& name) const { return temporary_.path() + "/" + name; }
  std::string Write(const std::string& name, const std::string& text) const {
    EXPECT_TRUE(io::WriteFileDurably(Path(name), text).has_value());
    return Path(name);
  }
  std::string Write(const std::string& name, const Result<fabric::TopologySpec>& spec) const {
    EXPECT_TRUE(spec.has_value());
    return Write(name, io::FormatTopology(*spec));
  }
  // A topology of COMPUTE nodes c0, c1, ... and SWITCHes s0, ...; links as "c0 s0 100", one-way
  // as "c0 s0 100 directed".
  std::string WriteNetwork(const std::string& name, int ranks, int switches,
                           const std::vector<std::string>& links) const {
    std::string text = "{\"nodes\": [";
    for (int i = 0; i < ranks + switches; ++i) {
      const bool rank = i < ranks;
      text += (i == 0 ? "{\"id\": \"" : ", {\"id\": \"") + std::string(rank ? "c" : "s") +
              std::to_string(rank ? i : i - ranks) + "\", \"kind\": \"" +
              (rank ? "COMPUTE" : "SWITCH") + "\"}";
    }
    text += "],\n \"links\": [";
    for (std::size_t i = 0; i < links.size(); ++i) {
      std::istringstream words(links[i]);
      std::string a, b, gbps, directed;
      words >> a >> b >> gbps >> directed;
      text += (i == 0 ? "" : ",\n  ") +
              ("{\"a\": \"" + a + "\", \"b\": \"" + b + "\", \"gbps\": " + gbps) +
              (directed.empty() ? "}" : ", \"directed\": true}");
    }
    return Write(name, text + "]}\n");
  }
  JsonValue Json(const Outcome& outcome) const {
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    auto json = io::ParseJson(outcome.output, "output");
    EXPECT_TRUE(json.has_value()) << outcome.output.substr(0, 200);
    return json.has_value() ? *json : JsonValue();
  }
  // Makes a forest with these options, has it verified, and gives the object on standard output.
  JsonValue Make(const std::string& topology, const std::string& options,
                 const std::string& verify_options = "") const {
    const Outcome made = Run("--topology " + topology + " " + options + " -o " + Path("made"));
    EXPECT_EQ(made.code, 0) << options << ": " << made.errors;
    const Outcome verified =
        Run("verify --topology " + topology + " " + verify_options + " " + Path("made"));
    EXPECT_EQ(verified.code, 0) << options << ": " << verified.errors;
    const auto text = io::ReadFile(Path("made"));
    EXPECT_TRUE(text.has_value());
    auto json = io::ParseJson(*text, "made");
    return json.has_value() ? std::move(*json) : JsonValue();
  }

  TemporaryFolder temporary_;
};

inline std::string TextOf(const JsonValue& object, std::string_view key,
                          std::string_view inner = "") {
  const JsonValue* value = object.Find(key);
  if (value != nullptr && !inner.empty()) value = value->Find(inner);
  return value == nullptr ? "(none)" : value->text;
}

}  // namespace espalier::forest
