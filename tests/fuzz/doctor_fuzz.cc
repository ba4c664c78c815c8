// What `espalier doctor` reads of programs, of an agent, of the kernel's files and of a controller.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "common/base/check.h"
#include "deploy/cli/doctor/controller_checks.h"
#include "deploy/cli/doctor/host_checks.h"
#include "tests/fuzz/own_folder.h"

namespace espalier::doctor {
namespace {

void Write(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

// A host with a device of one address, on which a file has this text.
HostView MakeView(const std::string& root, const std::string& text) {
  static const bool is_made = [&] {
    const std::string port = root + "/sys/class/infiniband/d0/ports/1/";
    Write(port + "link_layer", "Ethernet\n");
    Write(port + "gids/3", "0000:0000:0000:0000:0000:ffff:0a00:0001\n");
    Write(port + "gid_attrs/types/3", "RoCE v2\n");
    Write(port + "gid_attrs/ndevs/3", "eth0\n");
    return true;
  }();
  ESPALIER_CHECK(is_made);
  Write(root + "/etc/nccl.conf", text);
  HostView view;
  view.root = root;
  view.environment["NCCL_IB_HCA"] = text.substr(0, text.find('\0'));
  view.run = [&text](const std::vector<std::string>&) -> Result<std::string> { return text; };
  view.ask_agent = [&text](const std::string&) -> Result<std::string> { return text; };
  view.try_devices = [] { return std::vector<DeviceTrial>{}; };
  view.read_clock = [] { return Result<ClockState>(ClockState{}); };
  view.wait = [] {};
  return view;
}

void CheckAll(const std::string& text) {
  static const fuzz::OwnFolder folder;
  Findings findings;
  CheckHost(MakeView(folder.path(), text), findings);
  if (auto json = io::ParseJson(text, "fuzz")) {
    ControllerAnswers answers;
    answers.status = *json;
    answers.paths = *json;
    if (const io::JsonValue* const events = json->Find("events")) answers.events = events->items;
    CheckController(answers, findings);
  }
  // What is printed is JSON, and obeys no terminal's control characters.
  ESPALIER_CHECK(io::ParseJson(FormatJson(findings), "findings").has_value());
  ESPALIER_CHECK(FormatText(findings, false).find('\x1b') == std::string::npos);
}

}  // namespace
}  // namespace espalier::doctor

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  espalier::doctor::CheckAll(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
