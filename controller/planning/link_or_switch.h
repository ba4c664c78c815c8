#pragma once

#include <compare>
#include <cstdint>

#include "common/fabric/topology.h"

namespace espalier::controller {

// A failure domain: one link, or one switch with all its links.
class LinkOrSwitch {
 public:
  static constexpr LinkOrSwitch Link(fabric::LinkId link) { return {false, link.value()}; }
  static constexpr LinkOrSwitch Switch(fabric::NodeId node) { return {true, node.value()}; }

  constexpr bool IsLink() const { return !is_switch_; }
  constexpr fabric::LinkId link() const { return fabric::LinkId(id_); }  // requires IsLink
  constexpr fabric::NodeId node() const { return fabric::NodeId(id_); }  // requires !IsLink
  // Whether the link fails with it.
  bool Includes(const fabric::Topology& topology, fabric::LinkId link) const {
    if (!is_switch_) return link.value() == id_;
    const fabric::Link& ends = topology.link(link);
    return ends.a == node() || ends.b == node();
  }

  // Links come before switches.
  constexpr auto operator<=>(const LinkOrSwitch&) const = default;

 private:
  constexpr LinkOrSwitch(bool is_switch, std::int32_t id) : is_switch_(is_switch), id_(id) {}

  bool is_switch_;
  std::int32_t id_;
};

}  // namespace espalier::controller
