#include "deploy/demo/page_proxy.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <boost/asio.hpp>
#include <memory>
#include <utility>

namespace espalier::demo {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using asio::local::stream_protocol;
using boost::system::error_code;

constexpr std::uint16_t kPreferredPort = 9180;

// A browser's connection and the matching one to the controller.
class Pair : public std::enable_shared_from_this<Pair> {
 public:
  Pair(tcp::socket browser, stream_protocol::socket controller)
      : browser_(std::move(browser)), controller_(std::move(controller)) {}

  void Start() {
    Pass(browser_, controller_, to_controller_);
    Pass(controller_, browser_, to_browser_);
  }

 private:
  using Buffer = std::array<char, 16'384>;

  template <typename From, typename To>
  void Pass(From& from, To& to, Buffer& buffer) {
    from.async_read_some(
        asio::buffer(buffer), [this, self = shared_from_this(), &from, &to, &buffer](
                                  const error_code& error, std::size_t size) {
          if (error) return Close();
          asio::async_write(
              to, asio::buffer(buffer, size),
              [this, self, &from, &to, &buffer](const error_code& write_error, std::size_t) {
                if (write_error) return Close();
                Pass(from, to, buffer);
              });
        });
  }

  void Close() {
    error_code ignored;  // a failure to close needs no handling
    browser_.close(ignored);
    controller_.close(ignored);
  }

  tcp::socket browser_;
  stream_protocol::socket controller_;
  Buffer to_controller_{};
  Buffer to_browser_{};
};

class Proxy {
 public:
  Proxy(asio::io_context& context, tcp::acceptor acceptor, std::string socket_path)
      : context_(context), acceptor_(std::move(acceptor)), path_(std::move(socket_path)) {}

  void Accept() {
    acceptor_.async_accept([this](const error_code& error, tcp::socket browser) {
      if (!error) {
        stream_protocol::socket controller(context_);
        error_code failed;
        controller.connect(stream_protocol::endpoint(path_), failed);
        if (!failed) {
          std::make_shared<Pair>(std::move(browser), std::move(controller))->Start();
        }
      }
      Accept();
    });
  }

 private:
  asio::io_context& context_;
  tcp::acceptor acceptor_;
  const std::string path_;
};

error_code Listen(tcp::acceptor& acceptor, std::uint16_t port) {
  const tcp::endpoint endpoint(asio::ip::address_v4::loopback(), port);
  error_code error;
  if (!acceptor.is_open()) acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  return error;
}

// Detaches the process from the terminal, whose signals and output belong to its parent.
void LeaveTerminal() {
  setsid();
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, fd);
}

}  // namespace

Result<std::string> StartPageProxy(const std::string& socket_path) {
  asio::io_context context;
  tcp::acceptor acceptor(context);
  error_code error = Listen(acceptor, kPreferredPort);
  if (error) error = Listen(acceptor, 0);
  if (error) {
    return Fail(ErrorCode::kUnavailable, fmt::format("127.0.0.1: {}", error.message()));
  }
  const std::string address = fmt::format("http://127.0.0.1:{}", acceptor.local_endpoint().port());
  context.notify_fork(asio::io_context::fork_prepare);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return Fail(ErrorCode::kUnavailable, "cannot fork");
  if (child > 0) {
    context.notify_fork(asio::io_context::fork_parent);
    return address;
  }
  context.notify_fork(asio::io_context::fork_child);
  LeaveTerminal();
  // The parent blocks the signals that end it, and this process would inherit that.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);
  Proxy proxy(context, std::move(acceptor), socket_path);
  proxy.Accept();
  context.run();
  _exit(0);
}

}  // namespace espalier::demo
