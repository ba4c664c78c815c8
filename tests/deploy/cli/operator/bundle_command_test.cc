#include "deploy/cli/operator/bundle_command.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>

#include "common/files/json.h"
#include "tests/deploy/cli/operator/operator_commands_fixture.h"

namespace espalier::cli {
namespace {

// The files of a bundle by name, read by an own reader of gzip and tar.
std::map<std::string, std::string> Unpack(const std::string& path) {
  std::string tar;
  gzFile file = ::gzopen(path.c_str(), "rb");
  char buffer[4096];
  for (int got = ::gzread(file, buffer, sizeof buffer); got > 0;) {
    tar.append(buffer, static_cast<std::size_t>(got));
    got = ::gzread(file, buffer, sizeof buffer);
  }
  ::gzclose(file);
  std::map<std::string, std::string> files;
  for (std::size_t at = 0; at + 512 <= tar.size() && tar[at] != '\0';) {
    const std::string name = tar.c_str() + at;
    const std::size_t size = std::stoul(tar.substr(at + 124, 11), nullptr, 8);
    unsigned sum = 0;
    for (std::size_t i = 0; i < 512; ++i) {
      sum += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(tar[at + i]);
    }
    EXPECT_EQ(sum, std::stoul(tar.substr(at + 148, 6), nullptr, 8)) << name;
    files[name] = tar.substr(at + 512, size);
    at += 512 + (size + 511) / 512 * 512;
  }
  return files;
}

class BundleTest : public OperatorCommandsTest {
 protected:
  const std::string file_ = folder_.path() + "/bundle.tar.gz";
  const std::string config_ = folder_.path() + "/controller.conf";
};

TEST_F(BundleTest, HoldsStateEventsMetricsVersionsAndConfiguration) {
  std::ofstream(config_) << "topology_file: \"t.json\"\n";
  const Outcome outcome = Run({"bundle", "-o", file_, "--config", config_});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  auto files = Unpack(file_);
  const std::string readme = files["espalier-bundle/README.txt"];
  for (const auto& [name, text] : files) {
    const std::string plain = name.substr(name.find('/') + 1);
    if (plain != "README.txt") {
      EXPECT_NE(readme.find(plain), std::string::npos) << plain;
    }
    if (!plain.ends_with(".json")) continue;
    EXPECT_TRUE(io::ParseJson(text, plain).has_value()) << plain;
  }
  EXPECT_NE(files["espalier-bundle/flows.json"].find("h0:5"), std::string::npos);
  EXPECT_NE(files["espalier-bundle/events.json"].find("agent_up"), std::string::npos);
  EXPECT_NE(files["espalier-bundle/metrics.txt"].find("espalier_"), std::string::npos);
  EXPECT_EQ(files["espalier-bundle/versions.txt"].find("espalier "), 0U);
  EXPECT_EQ(files["espalier-bundle/config-1.txt"], "topology_file: \"t.json\"\n");
  struct stat status {};
  ASSERT_EQ(::stat(file_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

TEST_F(BundleTest, HoldsNoSecret) {
  const std::string token = "esp_" + std::string(64, 'a');
  Run({"drain", "link", "leaf0--spine1", "--reason", "as " + token + " said"});
  cluster_.state().history.Record(cluster_.controller().Now(), "test",
                                  "https://eve:hunter2@ctl:9180/x token=" + token);
  std::ofstream(config_) << "key_folder: \"/etc/espalier/keys\"\napi_token: \"hunter2\"\n# "
                         << token << "\n";
  ASSERT_EQ(Run({"bundle", "-o", file_, "--config", config_}).exit_code, 0);
  const auto files = Unpack(file_);
  EXPECT_GT(files.size(), 10U);
  for (const auto& [name, text] : files) {
    EXPECT_EQ(text.find(token), std::string::npos) << name;
    EXPECT_EQ(text.find("hunter2"), std::string::npos) << name;
  }
  // What is no secret stays readable.
  EXPECT_NE(files.at("espalier-bundle/config-1.txt").find("/etc/espalier/keys"), std::string::npos);
  EXPECT_NE(files.at("espalier-bundle/intents.json").find("as esp_REMOVED said"),
            std::string::npos);
}

TEST_F(BundleTest, IsWrittenWithoutAControllerAndSaysWhatItLacks) {
  address_ = "unix:" + folder_.path() + "/none.sock";
  const Outcome outcome = Run({"bundle", "-o", file_, "--config", config_});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("the controller did not answer"), std::string::npos) << outcome.err;
  auto files = Unpack(file_);
  EXPECT_NE(files["espalier-bundle/README.txt"].find("Not in it:\nstatus.json"), std::string::npos);
  EXPECT_EQ(Run({"bundle", "-o", folder_.path() + "/none/x.tar.gz"}).exit_code, 1);
  EXPECT_EQ(Run({"bundle"}).exit_code, 2);
}

}  // namespace
}  // namespace espalier::cli
