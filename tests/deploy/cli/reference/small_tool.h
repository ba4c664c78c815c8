#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace espalier::cli {

// A tool with one argument of every sort, and texts that are hard to write down.
struct SmallTool {
  SmallTool() : app("Does this | that.") {
    app.require_subcommand(1);
    app.set_version_flag("--version", "1");
    CLI::App* fail = app.add_subcommand("fail", "Take it as failed");
    fail->require_subcommand(1);
    CLI::App* link = fail->add_subcommand("link", "Take a link as failed");
    link->add_option("ID", text, "The link's id")->required();
    link->add_option("--controller", text, "Its API");
    link->add_flag("--json", flag, "One JSON object");
    CLI::App* make = app.add_subcommand("make", ".starts with a dot, has \\ and \"Nm\"");
    make->add_option("FILE", text, "What to read")->capture_default_str();
    make->add_option("-t,--to", text, "Form")->check(CLI::IsMember({"json", "bytes"}));
    make->add_option("--threads", number, "Threads")->check(CLI::Range(1, 64))->required();
    CLI::Option* size = make->add_option("--size", size_bytes, "Size");
    make->add_option("--scale", ratio, "Scale")->check(CLI::NonNegativeNumber)->needs(size);
    make->add_option("--hosts", many, "Hosts");
    make->add_option("--wait", number, "Wait")->type_name("SECONDS")->check(CLI::Range(1, 9));
    make->add_option("--role", text, "Role")->type_name("ROLE");
    make->add_option("--topology", text, "Topology");
    make->add_option("--secret", text, "Hidden")->group("");
    make->footer("A | table\n.of lines");
    app.add_subcommand("ghost", "Hidden")->group("");
  }

  CLI::App app;
  std::string text = "in.txt";
  int number = 0;
  unsigned size_bytes = 0;
  double ratio = 0;
  bool flag = false;
  std::vector<std::string> many;
};

}  // namespace espalier::cli
