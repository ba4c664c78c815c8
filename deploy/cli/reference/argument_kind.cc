#include "deploy/cli/reference/argument_kind.h"

namespace espalier::cli {

namespace {

constexpr KindEntry kTable[] = {
    {"explain", "FLOW", ArgumentKind::kFlow},
    {"probe", "SOURCE", ArgumentKind::kNode},
    {"probe", "DESTINATION", ArgumentKind::kNode},
    {"paths export", "SOURCE", ArgumentKind::kNode},
    {"paths export", "DESTINATION", ArgumentKind::kNode},
    {"describe link", "ID", ArgumentKind::kLink},
    {"describe node", "ID", ArgumentKind::kNode},
    {"describe job", "ID", ArgumentKind::kJob},
    {"describe agent", "ID", ArgumentKind::kAgent},
    {"describe flow", "ID", ArgumentKind::kFlow},
    {"flows", "--job", ArgumentKind::kJob},
    {"flows", "--host", ArgumentKind::kNode},
    {"flows", "--leaf", ArgumentKind::kNode},
    {"flows", "--link", ArgumentKind::kLink},
    {"jobs", "--job", ArgumentKind::kJob},
    {"links", "--link", ArgumentKind::kLink},
    {"links", "--host", ArgumentKind::kNode},
    {"links", "--leaf", ArgumentKind::kNode},
    {"nodes", "--host", ArgumentKind::kNode},
    {"agents", "--host", ArgumentKind::kAgent},
    {"plans", "--flow", ArgumentKind::kFlow},
    {"plans", "--job", ArgumentKind::kJob},
    {"plans", "--host", ArgumentKind::kNode},
    {"predict", "--job", ArgumentKind::kJob},
    {"events", "--kind", ArgumentKind::kEventKind},
    {"maintenance cancel", "WINDOW", ArgumentKind::kWindow},
    {"fail link", "ID", ArgumentKind::kLink},
    {"fail node", "ID", ArgumentKind::kNode},
    {"restore link", "ID", ArgumentKind::kLink},
    {"restore node", "ID", ArgumentKind::kNode},
    {"drain link", "ID", ArgumentKind::kLink},
    {"drain node", "ID", ArgumentKind::kNode},
    {"undrain link", "ID", ArgumentKind::kLink},
    {"undrain node", "ID", ArgumentKind::kNode},
    {"weight", "JOB", ArgumentKind::kJob},
    {"maintenance add link", "ID", ArgumentKind::kLink},
    {"maintenance add node", "ID", ArgumentKind::kNode},
    {"steering off", "--host", ArgumentKind::kAgent},
    {"steering off", "--job", ArgumentKind::kJob},
    {"steering on", "--host", ArgumentKind::kAgent},
    {"steering on", "--job", ArgumentKind::kJob},
    {"policy set", "POLICY", ArgumentKind::kPolicy},
    {"policy reset", "POLICY", ArgumentKind::kPolicy},
    {"job start", "--ranks", ArgumentKind::kAgent},
    {"job stop", "NAME", ArgumentKind::kTreeJob},
    {"keys make", "AGENT", ArgumentKind::kAgent},
    {"keys rotate", "AGENT", ArgumentKind::kAgent},
    {"keys revoke", "AGENT", ArgumentKind::kAgent},

    {"simulate paper", "--jobs", ArgumentKind::kFolder},
    {"simulate paper", "--output", ArgumentKind::kFolder},
    {"topology diff", "A", ArgumentKind::kFile},
    {"topology diff", "B", ArgumentKind::kFile},
    {"reference", "--output", ArgumentKind::kFolder},
    {"forest", "--ranks", ArgumentKind::kFile},
    {"schedule verify", "SCHEDULE", ArgumentKind::kFile},

    {"", "--ca", ArgumentKind::kFile},
    {"", "--cables", ArgumentKind::kFile},
    {"", "--costs", ArgumentKind::kFile},
    {"", "--demand", ArgumentKind::kFile},
    {"", "--flows", ArgumentKind::kFile},
    {"", "--jobs", ArgumentKind::kFile},
    {"", "--keys", ArgumentKind::kFolder},
    {"", "--output", ArgumentKind::kFile},
    {"", "--previous", ArgumentKind::kFile},
    {"", "--previous-topology", ArgumentKind::kFile},
    {"", "--scenario", ArgumentKind::kFile},
    {"", "--share", ArgumentKind::kFile},
    {"", "--store", ArgumentKind::kFile},
    {"", "--token-file", ArgumentKind::kFile},
    {"", "--topology", ArgumentKind::kFile},
    {"", "--weights", ArgumentKind::kFile},
    {"", "--workload", ArgumentKind::kFile},
    {"", "FILE", ArgumentKind::kFile},
    {"", "FOREST", ArgumentKind::kFile},
};

}  // namespace

std::span<const KindEntry> KindTable() { return kTable; }

ArgumentKind KindOf(std::string_view command, std::string_view argument) {
  for (const KindEntry& entry : KindTable()) {
    if (entry.argument != argument) continue;
    if (entry.command.empty() || entry.command == command) return entry.kind;
  }
  return ArgumentKind::kText;
}

std::string_view Placeholder(ArgumentKind kind) {
  switch (kind) {
    case ArgumentKind::kText:
      return "";
    case ArgumentKind::kFile:
      return "FILE";
    case ArgumentKind::kFolder:
      return "FOLDER";
    case ArgumentKind::kLink:
      return "LINK";
    case ArgumentKind::kNode:
      return "NODE";
    case ArgumentKind::kFlow:
      return "FLOW";
    case ArgumentKind::kJob:
    case ArgumentKind::kTreeJob:
      return "JOB";
    case ArgumentKind::kPolicy:
      return "POLICY";
    case ArgumentKind::kAgent:
      return "AGENT";
    case ArgumentKind::kWindow:
      return "WINDOW";
    case ArgumentKind::kEventKind:
      return "KIND";
  }
  return "";
}

}  // namespace espalier::cli
