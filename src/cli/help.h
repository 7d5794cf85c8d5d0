// How --help looks: names in one column, what they mean wrapped beside it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace penstock {

// A command as people type it after the program's name: "bench kernels".
std::string command_path(const CLI::App& command);

class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter();

  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;

 protected:
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommand(const CLI::App* command) const override;
};

}  // namespace penstock
