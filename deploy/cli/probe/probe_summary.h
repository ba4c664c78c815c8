#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "common/files/json.h"

namespace espalier::cli {

// What the probes of several source ports say of one path, or of one direction of a link.
struct ProbeCount {
  std::string name;          // the switches of the path, or the direction: "l1>leaf1"
  std::size_t sent = 0;      // ports
  std::size_t answered = 0;  // of these: those that every switch answered
  std::map<std::string, std::size_t> lost_behind;  // by the first direction without an answer
};

// Counts the ports of a probe's answer by path, in the order of the first port of each. A port that
// no switch answers counts for the path that the path map has for it, else for the path "-".
std::vector<ProbeCount> SummarizeProbe(const io::JsonValue& answer);

// One line a path, for people: "spine2: 22 of 26 answered, lost behind leaf3--spine2>leaf3".
std::string DescribeProbe(const std::vector<ProbeCount>& paths);

// The answers of many pairs, by direction of the links that their probes crossed.
class SweepCounts {
 public:
  // `links` are the rows of the controller's list of links, which name the ends of each.
  explicit SweepCounts(const std::vector<io::JsonValue>& links);

  // Adds the answer of a probe whose packets start at the switch `leaf`. Ports without a known path
  // count as silent; returns how many these are.
  std::size_t Add(const io::JsonValue& answer, const std::string& leaf);

  std::size_t sent() const { return sent_; }
  std::size_t silent() const { return silent_; }
  // The directions behind which answers stayed away, those with the largest part first.
  std::vector<ProbeCount> Suspects() const;

 private:
  std::map<std::string, std::pair<std::string, std::string>> ends_;  // by link
  std::map<std::string, ProbeCount> directions_;
  std::size_t sent_ = 0;
  std::size_t silent_ = 0;
};

}  // namespace espalier::cli
