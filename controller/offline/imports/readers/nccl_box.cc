#include "controller/offline/imports/readers/nccl_box.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <pugixml.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/offline/imports/facts/reading.h"
#include "controller/offline/imports/readers/nccl_rates.h"

namespace espalier::imports {
namespace {

constexpr int kMaxDepth = 64;
constexpr std::int64_t kMaxNvLinks = 1024;
constexpr std::size_t kMaxLinkedCpus = 64;
constexpr std::int64_t kMegabit = 1'000'000;

struct Gpu {
  std::string name;
  std::string host;
  std::string cpu;
  std::int64_t sm = 0;
  pugi::xml_node element;  // <gpu>; none if only the PCI function is there
};

class Reader {
 public:
  Reader(std::string_view text, std::string_view file) : text_(text), file_(file), places_(text) {
    cabling_.file = file;
  }

  Result<Cabling> Read() {
    pugi::xml_document document;
    const auto parsed =
        document.load_buffer(text_.data(), text_.size(), pugi::parse_default, pugi::encoding_utf8);
    if (!parsed) return FailAt(file_, places_.Of(parsed.offset), parsed.description());
    const pugi::xml_node system = document.document_element();
    const std::string_view name = system.name();
    if (name == "graphs") {
      return FailElement(system,
                         "<graphs> is a plan of NCCL, not a topology (set "
                         "NCCL_TOPO_DUMP_FILE and give that file)");
    }
    if (name != "system") return FailElement(system, "expected one <system> element");
    const std::string_view version = system.attribute("version").value();
    if (!version.empty() && version != "1") {
      return FailElement(system, fmt::format("version {} is unknown (only 1 is)", Quote(version)));
    }
    NameHosts(system);
    for (const pugi::xml_node cpu : system.children("cpu")) {
      if (auto done = ReadCpu(cpu); !done) return Propagate(done);
    }
    if (cpus_.empty()) return FailElement(system, "no <cpu> in <system>");
    if (auto done = LinkGpus(); !done) return Propagate(done);
    LinkCpus();
    Report();
    return std::move(cabling_);
  }

 private:
  Place PlaceOf(const pugi::xml_node& element) const { return places_.Of(element.offset_debug()); }
  tl::unexpected<Error> FailElement(const pugi::xml_node& element, std::string_view what) const {
    return FailAt(file_, PlaceOf(element), what);
  }

  // A whole number, also hexadecimal; the fallback if the attribute is absent or empty.
  Result<std::int64_t> Number(const pugi::xml_node& element, const char* key,
                              std::int64_t fallback) const {
    std::string_view text = element.attribute(key).value();
    if (text.empty()) return fallback;
    const std::string_view whole = text;
    int base = 10;
    if (text.starts_with("0x")) {
      base = 16;
      text.remove_prefix(2);
    }
    std::int64_t number = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number, base);
    if (parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() && number >= 0 &&
        number <= 1'000'000'000) {
      return number;
    }
    return FailElement(element, fmt::format("{}={} is not a whole number", key, Quote(whole)));
  }

  // One host for each host_hash.
  void NameHosts(const pugi::xml_node& system) {
    for (const pugi::xml_node cpu : system.children("cpu")) {
      hosts_.try_emplace(cpu.attribute("host_hash").value(), hosts_.size());
    }
    stem_ = StemOf(file_);
    if (stem_.empty()) stem_ = "box";
  }
  std::string HostOf(const pugi::xml_node& cpu) const {
    if (hosts_.size() == 1) return stem_;
    return fmt::format("{}-{}", stem_, hosts_.at(cpu.attribute("host_hash").value()));
  }

  Result<void> AddDevice(const std::string& name, DeviceKind kind, const std::string& host,
                         const pugi::xml_node& element) {
    if (!names_.insert(name).second) {
      return FailElement(element, fmt::format("{} is listed twice (keep one)", Quote(name)));
    }
    if (cabling_.devices.size() == kMaxCables)
      return FailElement(element, "more than 1000000 parts");
    DeviceFact& fact = cabling_.devices.emplace_back();
    fact.name = name;
    fact.kind = kind;
    fact.host = host;
    fact.at = PlaceOf(element);
    return {};
  }

  void AddLink(const std::string& a, const std::string& b, BitsPerSecond rate, Place at) {
    Cable& cable = cabling_.cables.emplace_back();
    cable.a.device = a;
    cable.b.device = b;
    cable.rate = rate;
    cable.at = at;
  }

  Result<void> ReadCpu(const pugi::xml_node& cpu) {
    host_ = HostOf(cpu);
    const auto numa = Number(cpu, "numaid", static_cast<std::int64_t>(cpus_[host_].size()));
    if (!numa) return tl::unexpected<Error>(numa.error());
    cpu_ = fmt::format("{}/cpu{}", host_, *numa);
    if (auto done = AddDevice(cpu_, DeviceKind::kSwitch, host_, cpu); !done) return done;
    cpus_[host_].push_back({cpu_, cpu});
    return ReadChildren(cpu, cpu_, 1);
  }

  Result<void> ReadChildren(const pugi::xml_node& parent, const std::string& parent_name,
                            int depth) {
    if (depth > kMaxDepth) {
      return FailElement(parent, fmt::format("more than {} bridges deep", kMaxDepth));
    }
    for (const pugi::xml_node& child : parent.children()) {
      const std::string_view name = child.name();
      if (name == "pci") {
        if (auto done = ReadPci(child, parent_name, depth); !done) return done;
      } else if (name == "nic") {
        if (auto done = ReadNic(child, parent_name, std::nullopt); !done) return done;
      }
    }
    return {};
  }

  Result<void> ReadPci(const pugi::xml_node& pci, const std::string& parent, int depth) {
    const auto rate = RateOf(pci);
    if (!rate) return tl::unexpected<Error>(rate.error());
    const std::string_view kind = pci.attribute("class").value();
    const pugi::xml_node nic = pci.child("nic");
    if (pci.child("gpu") || (kind.starts_with("0x03") && !nic)) return ReadGpu(pci, parent, *rate);
    if (nic) return ReadNic(nic, parent, *rate);
    if (kind.starts_with("0x02")) return AddNic(pci, pci, "", parent, *rate);
    if (!kind.starts_with("0x0604") && !pci.child("pci")) {
      ++others_;
      return {};
    }
    const std::string busid = pci.attribute("busid").value();
    if (busid.empty()) return FailElement(pci, "a bridge without busid (add it)");
    const std::string name = fmt::format("{}/pci-{}", host_, busid);
    if (auto done = AddDevice(name, DeviceKind::kSwitch, host_, pci); !done) return done;
    AddLink(name, parent, *rate, PlaceOf(pci));
    return ReadChildren(pci, name, depth + 1);
  }

  Result<BitsPerSecond> RateOf(const pugi::xml_node& pci) {
    const auto width = Number(pci, "link_width", 0);
    if (!width) return tl::unexpected<Error>(width.error());
    if (*width > 32) return FailElement(pci, fmt::format("{} lanes (at most 32 exist)", *width));
    const std::int64_t lanes = *width == 0 ? kDefaultPciLanes : *width;
    const std::string_view speed = pci.attribute("link_speed").value();
    const auto rate = PciRate(speed, lanes);
    if (!rate || *width == 0) defaulted_.emplace_back(pci.attribute("busid").value());
    return rate.value_or(DefaultPciRate(lanes));
  }

  Result<void> ReadGpu(const pugi::xml_node& pci, const std::string& parent, BitsPerSecond rate) {
    Gpu gpu;
    gpu.host = host_;
    gpu.cpu = cpu_;
    gpu.element = pci.child("gpu");
    const auto number = static_cast<std::int64_t>(gpus_in_[host_]++);
    const auto dev = Number(gpu.element ? gpu.element : pci, "dev", number);
    if (!dev) return tl::unexpected<Error>(dev.error());
    const auto sm = Number(gpu.element ? gpu.element : pci, "sm", 0);
    if (!sm) return tl::unexpected<Error>(sm.error());
    gpu.sm = *sm;
    gpu.name = fmt::format("{}/gpu{}", host_, *dev);
    const std::string busid = KeyOf(pci.attribute("busid").value());
    if (busid.empty()) return FailElement(pci, "a GPU without busid (add it)");
    if (auto done = AddDevice(gpu.name, DeviceKind::kCompute, host_, pci); !done) return done;
    AddLink(gpu.name, parent, rate, PlaceOf(pci));
    if (!gpus_.try_emplace({host_, busid}, gpu).second) {
      return FailElement(pci, fmt::format("two GPUs have the busid {}", Quote(busid)));
    }
    return {};
  }

  static std::string KeyOf(std::string_view busid) {
    std::string key;
    for (const char c : busid) key += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    return key;
  }

  // A network device, with the rate of its PCI link if it has one, and each <net> of it a port.
  Result<void> ReadNic(const pugi::xml_node& nic, const std::string& parent,
                       std::optional<BitsPerSecond> pci_rate) {
    std::vector<pugi::xml_node> nets;
    for (const pugi::xml_node net : nic.children("net")) nets.push_back(net);
    if (nets.empty()) {
      return AddNic(nic, nic, "", parent, pci_rate.value_or(DefaultPciRate(kDefaultPciLanes)));
    }
    std::string shared = parent;
    if (nets.size() > 1 && pci_rate) {  // the ports share the PCI link
      shared = fmt::format("{}/card-{}", host_, nic.parent().attribute("busid").value());
      if (auto done = AddDevice(shared, DeviceKind::kSwitch, host_, nic); !done) return done;
      AddLink(shared, parent, *pci_rate, PlaceOf(nic));
    }
    for (const pugi::xml_node& net : nets) {
      const auto speed = Number(net, "speed", 0);
      if (!speed) return tl::unexpected<Error>(speed.error());
      const BitsPerSecond net_rate{*speed * kMegabit};
      const BitsPerSecond inner = pci_rate             ? *pci_rate
                                  : net_rate.value > 0 ? net_rate
                                                       : DefaultPciRate(kDefaultPciLanes);
      const char* name = net.attribute("name").value();
      if (auto done = AddNic(nic, net, name, shared, inner); !done) return done;
      if (net_rate.value == 0) continue;
      slow_.pop_back();
      PortFact& port = cabling_.ports.emplace_back();
      port.device = cabling_.devices.back().name;
      port.name = *name == '\0' ? "1" : name;
      port.rate = net_rate;
      port.at = PlaceOf(net);
    }
    return {};
  }

  Result<void> AddNic(const pugi::xml_node& nic, const pugi::xml_node& element,
                      const std::string& device, const std::string& parent, BitsPerSecond rate) {
    const std::size_t number = nics_in_[host_]++;
    const std::string name =
        fmt::format("{}/{}", host_, device.empty() ? fmt::format("nic{}", number) : device);
    if (auto done = AddDevice(name, DeviceKind::kNic, host_, element); !done) return done;
    cabling_.devices.back().rdma_device = device;
    AddLink(name, parent, rate, PlaceOf(nic));
    slow_.push_back(name);  // until its speed is known
    return {};
  }

  // NVLinks: between GPUs once, though both list them, and to the NVSwitches of a host together.
  Result<void> LinkGpus() {
    std::map<std::pair<std::string, std::string>, std::int64_t> counts;  // by the GPUs' names
    for (const auto& [key, gpu] : gpus_) {
      if (!gpu.element) continue;
      std::int64_t all = 0;
      std::int64_t to_switches = 0;
      for (const pugi::xml_node link : gpu.element.children("nvlink")) {
        const auto count = Number(link, "count", 1);
        if (!count) return tl::unexpected<Error>(count.error());
        all += *count;
        if (*count < 1 || all > kMaxNvLinks) {
          return FailElement(
              link, fmt::format("{} NVLinks of a GPU (1 to {} are possible)", all, kMaxNvLinks));
        }
        const std::string_view target = link.attribute("tclass").value();
        const auto found = gpus_.find({gpu.host, KeyOf(link.attribute("target").value())});
        if (target.starts_with("0x0680")) {
          to_switches += *count;
        } else if (target.starts_with("0x06")) {
          AddLink(gpu.name, gpu.cpu, NvLinkRate(gpu.sm, *count), PlaceOf(link));
        } else if (found == gpus_.end()) {
          beyond_.push_back(gpu.name);
        } else if (found->second.name == gpu.name) {
          return FailElement(link, "an NVLink from the GPU to itself (remove it)");
        } else {
          counts[{gpu.name, found->second.name}] += *count;
        }
      }
      if (auto done = LinkNvSwitch(gpu, to_switches); !done) return done;
      if (auto done = LinkC2c(gpu); !done) return done;
      if (gpu.element.child("xgmi")) xgmi_.push_back(gpu.name);
    }
    return LinkPairs(counts);
  }

  Result<void> LinkPairs(
      const std::map<std::pair<std::string, std::string>, std::int64_t>& counts) {
    std::map<std::string, const Gpu*> by_name;
    for (const auto& [key, gpu] : gpus_) by_name[gpu.name] = &gpu;
    for (const auto& [pair, count] : counts) {
      const auto back = counts.find({pair.second, pair.first});
      const Gpu& gpu = *by_name.at(pair.first);
      if (back != counts.end() && back->second != count) {
        return FailElement(gpu.element, fmt::format("{} has {} NVLinks to {}, which has {} back "
                                                    "(correct one)",
                                                    pair.first, count, pair.second, back->second));
      }
      if (back != counts.end() && pair.second < pair.first) continue;
      AddLink(pair.first, pair.second, NvLinkRate(gpu.sm, count), PlaceOf(gpu.element));
    }
    return {};
  }

  Result<void> LinkNvSwitch(const Gpu& gpu, std::int64_t count) {
    if (count == 0) return {};
    const std::string name = gpu.host + "/nvswitch";
    if (!names_.contains(name)) {
      auto done = AddDevice(name, DeviceKind::kSwitch, gpu.host, gpu.element);
      if (!done) return done;
    }
    AddLink(gpu.name, name, NvLinkRate(gpu.sm, count), PlaceOf(gpu.element));
    return {};
  }

  // <c2c bw="44712" count="10">: megabytes a second of each link to the CPU.
  Result<void> LinkC2c(const Gpu& gpu) {
    const pugi::xml_node c2c = gpu.element.child("c2c");
    if (!c2c) return {};
    const auto bandwidth = Number(c2c, "bw", 0);
    if (!bandwidth) return tl::unexpected<Error>(bandwidth.error());
    const auto count = Number(c2c, "count", 1);
    if (!count) return tl::unexpected<Error>(count.error());
    if (*bandwidth < 1 || *bandwidth > 10'000'000 || *count < 1 || *count > kMaxNvLinks) {
      return FailElement(c2c, "bw and count are no bandwidth in MB/s and number of links");
    }
    AddLink(gpu.name, gpu.cpu, {*bandwidth * *count * 8 * kMegabit}, PlaceOf(c2c));
    return {};
  }

  // As NCCL, each CPU with each.
  void LinkCpus() {
    for (const auto& [host, cpus] : cpus_) {
      if (cpus.size() > kMaxLinkedCpus) continue;
      for (std::size_t i = 0; i < cpus.size(); ++i) {
        for (std::size_t j = i + 1; j < cpus.size(); ++j) {
          const pugi::xml_node& cpu = cpus[i].element;
          AddLink(
              cpus[i].name, cpus[j].name,
              InterCpuRate(cpu.attribute("arch").value(), cpu.attribute("vendor").value(),
                           cpu.attribute("familyid").as_int(), cpu.attribute("modelid").as_int()),
              PlaceOf(cpu));
        }
      }
    }
  }

  void Report() {
    const auto remark = [&](const std::vector<std::string>& names, std::string_view what) {
      if (!names.empty()) {
        cabling_.remarks.push_back(fmt::format("{}: {}: {}", file_, what, NameSome(names)));
      }
    };
    remark(defaulted_,
           "no PCI speed or width, so that 8 GT/s and 16 lanes are assumed, as NCCL does, for");
    remark(slow_, "no network speed is given for");
    remark(beyond_, "NVLinks to GPUs that are not in the file are left out, of");
    remark(xgmi_, "xGMI links have no rate in the file and are left out, of");
    if (others_ > 0) {
      cabling_.remarks.push_back(
          fmt::format("{}: {} PCI device{} that {} neither GPU, network device nor bridge left out",
                      file_, others_, others_ == 1 ? "" : "s", others_ == 1 ? "is" : "are"));
    }
    for (const auto& [host, cpus] : cpus_) {
      if (cpus.size() < 2) continue;
      const bool is_too_many = cpus.size() > kMaxLinkedCpus;
      cabling_.remarks.push_back(
          fmt::format("{}: {} CPUs of {}: {}", file_, cpus.size(), host,
                      is_too_many ? "links between them are left out, as they are too many"
                                  : "each is linked with each, at the rate that NCCL supposes"));
    }
    if (hosts_.size() > 1) {
      cabling_.remarks.push_back(
          fmt::format("{}: {} hosts, named {}-0 and so on in the order of the file", file_,
                      hosts_.size(), stem_));
    } else {
      cabling_.remarks.push_back(
          fmt::format("{}: this is the inside of {}, by the name of the file", file_, stem_));
    }
  }

  struct Cpu {
    std::string name;
    pugi::xml_node element;
  };

  std::string_view text_;
  std::string file_;
  TextPlaces places_;
  std::string stem_;
  std::map<std::string, std::size_t> hosts_;  // number by host_hash
  std::string host_;                          // of the present <cpu>
  std::string cpu_;                           // its name
  std::map<std::string, std::vector<Cpu>> cpus_;
  std::map<std::pair<std::string, std::string>, Gpu> gpus_;  // by host and busid
  std::map<std::string, std::size_t> gpus_in_;
  std::map<std::string, std::size_t> nics_in_;
  std::set<std::string> names_;
  std::vector<std::string> defaulted_;  // bus ids
  std::vector<std::string> slow_;       // NICs
  std::vector<std::string> beyond_;     // GPUs
  std::vector<std::string> xgmi_;       // GPUs
  std::size_t others_ = 0;
  Cabling cabling_;
};

}  // namespace

Result<Cabling> ReadNcclBox(std::string_view text, std::string_view file) {
  return Reader(text, file).Read();
}

}  // namespace espalier::imports
