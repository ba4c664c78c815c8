#include "deploy/cli/operator/flow_text.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "common/terminal/units.h"

namespace espalier::cli {
namespace {

std::string FieldOf(const io::JsonValue& flow, std::string_view key) {
  const io::JsonValue* const value = flow.Find(key);
  return value == nullptr ? "" : value->text;
}

double AmountOf(const io::JsonValue& flow, std::string_view key) {
  return std::strtod(FieldOf(flow, key).c_str(), nullptr);
}

// Why the path in force was chosen.
std::string_view ReasonInWords(std::string_view reason) {
  if (reason == "ASSIGNED") return "assigned when it started, or since, to spread the load";
  if (reason == "PREDICTED") return "decided before it started to send";
  if (reason == "PATH_DEAD") return "as the path before died";
  if (reason == "RECOMPUTED") return "by an operator's recompute";
  if (reason == "REMAPPED") return "as its port leads to another path than before";
  return reason;
}

// What switches say of the flow.
std::string AttestedValue(const io::JsonValue& attested) {
  const io::JsonValue* const state = attested.Find("state");
  const io::JsonValue* const samples = attested.Find("samples");
  const io::JsonValue* const via = attested.Find("via");
  if (state == nullptr || samples == nullptr || via == nullptr) return "";
  std::string links;
  for (const io::JsonValue& link : via->items) links += (links.empty() ? "" : ", ") + link.text;
  if (links.empty()) return state->text;
  return fmt::format("{} ({} packets sampled on {})", state->text, samples->text, links);
}

// The value of a flow's field as people read it.
std::string ShownValue(const std::string& key, const io::JsonValue& value) {
  if (key == "attested") return AttestedValue(value);
  if (value.kind == io::JsonValue::Kind::kBool) return value.boolean ? "true" : "false";
  if (key == "protocol") return value.text == "17" ? "UDP" : value.text == "6" ? "TCP" : value.text;
  if (key == "max_rate_bps") return value.text == "0" ? "no limit" : value.text;
  return value.text;
}

// What a dead link can do to the flow's acknowledgements.
std::string_view ReturnPath(const io::JsonValue& flow) {
  const io::JsonValue* const other_end = flow.Find("other_end");
  const io::JsonValue* const protocol = flow.Find("protocol");
  if (other_end == nullptr || protocol == nullptr || protocol->text != "17") return "";
  if (other_end->text == "ANSWERS") {
    return "Its acknowledgements take the same links back and move with it.\n";
  }
  if (other_end->text == "UNKNOWN") {
    return "No agent reports the queue pair at its other end. Its acknowledgements take the path "
           "that ECMP\nchooses, and if a link of that path dies, the flow waits until the switches "
           "avoid that link.\n";
  }
  return "";
}

// Where the flow's host sends by itself if a path is dead.
std::string StandbyPaths(const io::JsonValue& flow) {
  std::string text;
  const io::JsonValue* const paths = flow.Find("paths");
  if (paths == nullptr) return text;
  for (const io::JsonValue& path : paths->items) {
    const io::JsonValue* const via = path.Find("standby_via");
    const io::JsonValue* const port = path.Find("standby_port");
    if (via == nullptr || port == nullptr || port->text == "0") continue;
    text += fmt::format("If its path over {} dies, its host sends over {} at once (port {}).\n",
                        path.Find("via")->text, via->text, port->text);
  }
  return text;
}

// How much of a flow each path carries, if they carry unequal parts.
std::string UnequalParts(const io::JsonValue& flow) {
  const io::JsonValue* const paths = flow.Find("paths");
  if (paths == nullptr) return "";
  bool are_equal = true;
  std::string text;
  for (const io::JsonValue& path : paths->items) {
    const io::JsonValue* const share = path.Find("share");
    if (share == nullptr) return "";  // of an older controller
    are_equal = are_equal && share->text == paths->items.front().Find("share")->text;
    text += fmt::format("{}{:.1f} % over {}", text.empty() ? "" : ", ",
                        100 * std::stod(share->text), path.Find("via")->text);
  }
  return are_equal ? "" : "It sends unequal parts: " + text + ".\n";
}

// What the transport's timeout means if it is longer than a move off a dead path.
std::string LongTimeout(const io::JsonValue& flow) {
  const io::JsonValue* const timeout = flow.Find("transport_timeout_seconds");
  if (timeout == nullptr || std::stod(timeout->text) <= 1) return "";
  return fmt::format(
      "Its transport waits {:.1f} s before it repeats what is lost. On a path that dies the flow "
      "stands still\nfor so long, even if it is moved at once: choose a shorter timeout "
      "(NCCL_IB_TIMEOUT for NCCL).\n",
      std::stod(timeout->text));
}

// Which way the acknowledgements of one path come back.
std::string ReturnOfPath(const io::JsonValue& path) {
  const std::string& state = path.Find("return_state")->text;
  const std::string& back = path.Find("return_via")->text;
  const std::string subject = fmt::format("The acknowledgements of its path over {} (port {})",
                                          path.Find("via")->text, path.Find("source_port")->text);
  if (state == "UP") return fmt::format("{} come back over {}.\n", subject, back);
  if (state == "UNKNOWN") return subject + " come back over a path that is not known.\n";
  std::string text = back.empty()
                         ? subject + " come to a switch whose links back are all down"
                         : fmt::format("{} come back over {}, where a link is {}", subject, back,
                                       state == "DOWN"    ? "down"
                                       : state == "LOSSY" ? "lossy"
                                                          : "drained");
  const bool is_down = state == "DOWN";
  if (path.Find("better_port_known")->boolean) {
    return text + ".\nA port with a better return path is known: the flow takes it " +
           (is_down ? "unless its port cannot change.\n" : "when the link goes down.\n");
  }
  text += ", and no port of\nthis path is known to be better. ";
  text += is_down ? "Repair the link, make the switches withdraw their routes\nover it, or "
                  : "Before the link is taken out of the fabric, make the switches\nwithdraw their "
                    "routes over it, or ";
  return text + "let the server listen on another port.\n";
}

std::string Consequences(const io::JsonValue& flow) {
  return UnequalParts(flow) + std::string(ReturnPath(flow)) + StandbyPaths(flow) +
         LongTimeout(flow);
}

}  // namespace

std::string ReturnText(const io::JsonValue& explanation) {
  const io::JsonValue* const returns = explanation.Find("returns");
  if (returns == nullptr) return "";
  std::string text;
  bool is_one_unknown = false;
  for (const io::JsonValue& path : returns->items) {
    if (path.Find("source_port")->text == "0") continue;
    text += ReturnOfPath(path);
    is_one_unknown |= path.Find("return_state")->text == "UNKNOWN";
  }
  if (is_one_unknown) {
    text +=
        "Ports cannot be chosen for return paths that are not known. Name the hashes of the "
        "switches in the\ntopology file (ecmp), or set hash_ignores_protocol if they hash TCP as "
        "they hash probes and the other\nend has an agent.\n";
  }
  return text;
}

std::string ShortFlowText(const io::JsonValue& flow) {
  const io::JsonValue* const protocol = flow.Find("protocol");
  std::string text =
      fmt::format("{} of job {} ({}, {} to {}) is {}", FieldOf(flow, "flow"), FieldOf(flow, "job"),
                  protocol == nullptr ? "" : ShownValue("protocol", *protocol),
                  FieldOf(flow, "source"), FieldOf(flow, "destination"), FieldOf(flow, "status"));
  const std::string via = FieldOf(flow, "via");
  const std::string port = FieldOf(flow, "source_port");
  if (!via.empty()) {
    text += fmt::format(" over {}{}: {}", via,
                        port.empty() || port == "0" ? "" : " with source port " + port,
                        ReasonInWords(FieldOf(flow, "reason")));
  }
  text += ".\n";
  for (const auto& [key, title] : {std::pair("cause", "Cause"), {"remedy", "Remedy"}}) {
    const std::string words = FieldOf(flow, key);
    if (!words.empty()) text += fmt::format("{}: {}.\n", title, words);
  }
  const io::JsonValue* const busy = flow.Find("busy");
  if (busy != nullptr && !busy->boolean) text += "It has nothing to send at the moment.\n";
  if (busy != nullptr && busy->boolean) {
    text += fmt::format("It sends {} (over the last 100 ms); {} remain.\n",
                        FormatRate(AmountOf(flow, "achieved_bps")),
                        FormatBytes(AmountOf(flow, "remaining_bytes")));
  }
  const io::JsonValue* const planned = flow.Find("planned");
  if (planned != nullptr && planned->boolean) {
    text += "Its path is the one that is planned for the repeating phases of its job.\n";
  }
  const io::JsonValue* const attested = flow.Find("attested");
  if (attested != nullptr && FieldOf(*attested, "state") != "NOT_SEEN") {
    text += fmt::format("Switches say {}.\n", AttestedValue(*attested));
  }
  return text + Consequences(flow);
}

std::string FlowText(const io::JsonValue& flow) {
  std::string text;
  for (const auto& [key, value] : flow.members) {
    if ((key == "cause" || key == "remedy") && value.text.empty()) continue;
    if (value.kind == io::JsonValue::Kind::kArray) continue;  // its paths have lines of their own
    text += fmt::format("{:20} {}\n", key, ShownValue(key, value));
  }
  return text + Consequences(flow);
}

}  // namespace espalier::cli
