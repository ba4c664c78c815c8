#include "controller/offline/imports/readers/simai_topology.h"

#include <fmt/format.h>

#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "controller/offline/imports/facts/reading.h"

namespace espalier::imports {
namespace {

constexpr std::int64_t kMaxNodes = 262'144;

class Reader {
 public:
  Reader(std::string_view text, std::string_view file) : file_(file) {
    cabling_.file = file;
    for (const Line& line : SplitLines(text)) {
      std::vector<Word> words = SplitWords(line);
      if (!words.empty()) lines_.push_back(std::move(words));
    }
  }

  Result<Cabling> Read() {
    if (lines_.size() < 2) {
      return FailAt(file_, {}, "the two lines of numbers at the beginning are missing");
    }
    if (auto done = ReadCounts(); !done) return Propagate(done);
    if (auto done = ReadSwitches(); !done) return Propagate(done);
    AddDevices();
    for (std::size_t i = 2; i < lines_.size(); ++i) {
      if (auto done = ReadLink(lines_[i]); !done) return Propagate(done);
    }
    if (static_cast<std::int64_t>(lines_.size()) - 2 != links_) {
      return FailAt(file_, lines_[0][4].at,
                    fmt::format("the first line has {} links, but {} are listed (correct it)",
                                links_, lines_.size() - 2));
    }
    return std::move(cabling_);
  }

 private:
  enum class Kind { kGpu, kNvSwitch, kSwitch };

  Result<std::int64_t> Number(const Word& word, std::int64_t most) const {
    std::int64_t number = 0;
    const char* end = word.text.data() + word.text.size();
    const auto parsed = std::from_chars(word.text.data(), end, number);
    if (parsed.ec == std::errc() && parsed.ptr == end && number >= 0 && number <= most) {
      return number;
    }
    return FailAt(file_, word.at,
                  fmt::format("{} is not a whole number from 0 to {}", Quote(word.text), most));
  }

  Result<void> ReadCounts() {
    const std::vector<Word>& words = lines_[0];
    if (words.size() < 5) {
      return FailAt(file_, words[0].at,
                    "the first line is not: nodes gpus_per_server nvswitches switches links "
                    "gpu_type");
    }
    std::int64_t* const counts[] = {&nodes_, &per_server_, &nvswitches_, &switches_, &links_};
    for (std::size_t i = 0; i < 5; ++i) {
      const auto number =
          Number(words[i], i == 4 ? static_cast<std::int64_t>(kMaxCables) : kMaxNodes);
      if (!number) return tl::unexpected<Error>(number.error());
      *counts[i] = *number;
    }
    gpus_ = nodes_ - nvswitches_ - switches_;
    if (gpus_ < 0) return FailAt(file_, words[0].at, "fewer nodes than switches (correct it)");
    if (gpus_ > 0 && (per_server_ == 0 || gpus_ % per_server_ != 0)) {
      return FailAt(
          file_, words[1].at,
          fmt::format("{} GPUs are no whole number of servers of {}", gpus_, per_server_));
    }
    return {};
  }

  Result<void> ReadSwitches() {
    const std::vector<Word>& words = lines_[1];
    kinds_.assign(static_cast<std::size_t>(nodes_), Kind::kGpu);
    numbers_.assign(kinds_.size(), 0);
    if (static_cast<std::int64_t>(words.size()) != nvswitches_ + switches_) {
      return FailAt(file_, words[0].at,
                    fmt::format("{} numbers of switches instead of {} (correct the first line)",
                                words.size(), nvswitches_ + switches_));
    }
    for (std::size_t i = 0; i < words.size(); ++i) {
      const auto node = Number(words[i], nodes_ - 1);
      if (!node) return tl::unexpected<Error>(node.error());
      Kind& kind = kinds_[static_cast<std::size_t>(*node)];
      if (kind != Kind::kGpu) {
        return FailAt(file_, words[i].at, fmt::format("switch {} is listed twice", *node));
      }
      const bool is_inner = static_cast<std::int64_t>(i) < nvswitches_;
      kind = is_inner ? Kind::kNvSwitch : Kind::kSwitch;
      numbers_[static_cast<std::size_t>(*node)] =
          static_cast<std::int64_t>(i) - (is_inner ? 0 : nvswitches_);
    }
    std::int64_t gpu = 0;
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
      if (kinds_[i] == Kind::kGpu) numbers_[i] = gpu++;
    }
    return {};
  }

  std::string ServerOf(std::int64_t gpu) const {
    return fmt::format("server{}", gpu / per_server_);
  }

  std::string NameOf(std::size_t node, bool as_nic = false) const {
    const std::int64_t number = numbers_[node];
    switch (kinds_[node]) {
      case Kind::kGpu:
        return fmt::format("{}/{}{}", ServerOf(number), as_nic ? "nic" : "gpu",
                           number % per_server_);
      case Kind::kNvSwitch:
        return fmt::format("nvswitch{}", number);
      case Kind::kSwitch:
        break;
    }
    return fmt::format("switch{}", number);
  }

  void AddDevices() {
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
      DeviceFact& fact = cabling_.devices.emplace_back();
      fact.name = NameOf(i);
      fact.at = lines_[1][0].at;
      fact.kind = kinds_[i] == Kind::kGpu ? DeviceKind::kCompute : DeviceKind::kSwitch;
      if (kinds_[i] == Kind::kGpu) fact.host = ServerOf(numbers_[i]);
    }
    has_nic_.assign(kinds_.size(), false);
  }

  Result<void> ReadLink(const std::vector<Word>& words) {
    if (words.size() != 5) {
      return FailAt(file_, words[0].at, "the line is not: from to 400Gbps latency error_rate");
    }
    const auto from = Number(words[0], nodes_ - 1);
    if (!from) return tl::unexpected<Error>(from.error());
    const auto to = Number(words[1], nodes_ - 1);
    if (!to) return tl::unexpected<Error>(to.error());
    const auto rate = ParseRate(words[2].text);
    if (!rate) return FailAt(file_, words[2].at, rate.error().message);
    const auto a = static_cast<std::size_t>(*from);
    const auto b = static_cast<std::size_t>(*to);
    for (const auto& [gpu, other] : {std::pair(a, b), std::pair(b, a)}) {
      if (kinds_[gpu] != Kind::kGpu) continue;
      if (kinds_[other] == Kind::kSwitch) return AddNicLink(gpu, other, *rate, words[0].at);
      if (kinds_[other] == Kind::kNvSwitch) SetServer(other, ServerOf(numbers_[gpu]));
    }
    AddCable(NameOf(a), NameOf(b), *rate, words[0].at);
    return {};
  }

  // A GPU's link to the fabric goes through its NIC.
  Result<void> AddNicLink(std::size_t gpu, std::size_t other, BitsPerSecond rate, Place at) {
    const std::string nic = NameOf(gpu, true);
    if (!has_nic_[gpu]) {
      has_nic_[gpu] = true;
      DeviceFact& fact = cabling_.devices.emplace_back();
      fact.name = nic;
      fact.kind = DeviceKind::kNic;
      fact.host = ServerOf(numbers_[gpu]);
      fact.at = at;
      AddCable(NameOf(gpu), nic, rate, at);
    }
    AddCable(nic, NameOf(other), rate, at);
    return {};
  }

  // An NVSwitch is part of the server of its GPUs.
  void SetServer(std::size_t node, const std::string& server) {
    cabling_.devices[node].host = server;
  }

  void AddCable(std::string a, std::string b, BitsPerSecond rate, Place at) {
    Cable& cable = cabling_.cables.emplace_back();
    cable.a.device = std::move(a);
    cable.b.device = std::move(b);
    cable.rate = rate;
    cable.at = at;
  }

  std::string file_;
  std::vector<std::vector<Word>> lines_;  // without blank ones
  std::int64_t nodes_ = 0;
  std::int64_t per_server_ = 0;
  std::int64_t nvswitches_ = 0;
  std::int64_t switches_ = 0;
  std::int64_t links_ = 0;
  std::int64_t gpus_ = 0;
  std::vector<Kind> kinds_;            // by node
  std::vector<std::int64_t> numbers_;  // among the nodes of its kind
  std::vector<bool> has_nic_;          // by node
  Cabling cabling_;
};

}  // namespace

Result<Cabling> ReadSimaiTopology(std::string_view text, std::string_view file) {
  return Reader(text, file).Read();
}

}  // namespace espalier::imports
