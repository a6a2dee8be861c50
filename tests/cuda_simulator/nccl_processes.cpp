// The simulated NCCL between processes: the process that made an id relays what the ranks of its comm do, over sockets in the machine's own namespace.
#include "nccl_comms.hpp"

#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <thread>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace graft_simulator {

// A connection to another process, and the ranks that joined over it.
struct channel {
    int socket = -1;
    std::vector<int> ranks;
    ~channel() { ::close(socket); }
};

namespace {

namespace nccl = graft::gpu::api::nccl;
namespace result = nccl::result;

enum class kind { hello, join, accepted, joined, refused, put, data, left, gone, broken, ended };

// What processes tell each other; they are of one build, so that it goes as it lies in memory. `bytes` follow.
struct message {
    kind what = kind::hello;
    std::uint64_t id = 0, call = 0, count = 0, bytes = 0;
    int rank = 0, ranks = 0, device = 0, code = 0, type = 0, reduction = -1, root = -1;
    bool gives_all = false, gets_all = false;
    char name[24] = "";
};
struct letter {
    message head;
    std::vector<unsigned char> body;
    std::shared_ptr<channel> from;
};

// What the threads share that read and apply; never destroyed, as they run until the process ends.
struct post_office {
    std::mutex lock;
    std::condition_variable filled;
    std::deque<letter> inbox;
    std::string address;  // of this process; "" before it listens
};
post_office& the_post_office() {
    static post_office* office = new post_office;
    return *office;
}

bool read_all(int socket, void* to, std::size_t bytes) {
    auto* at = static_cast<char*>(to);
    while (bytes > 0) {
        const ssize_t n = recv(socket, at, bytes, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += n, bytes -= static_cast<std::size_t>(n);
    }
    return true;
}
// A process that is gone is heard of by whoever reads.
void write_all(int socket, const void* from, std::size_t bytes) {
    auto* at = static_cast<const char*>(from);
    while (bytes > 0) {
        const ssize_t n = send(socket, at, bytes, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return;
        at += n, bytes -= static_cast<std::size_t>(n);
    }
}
// Under the simulator's lock, so that messages are not mixed. Nobody waits for that lock to read, so that it ends.
void send_to(const channel& to, message head, const void* body = nullptr, std::size_t bytes = 0) {
    head.bytes = bytes;
    write_all(to.socket, &head, sizeof head);
    if (bytes) write_all(to.socket, body, bytes);
}
void send_to_others(const clique& all, const message& head, const void* body = nullptr, std::size_t bytes = 0, const channel* but = nullptr) {
    for (const auto& c : all.channels)
        if (c.get() != but) send_to(*c, head, body, bytes);
}

// Reads without a lock: whoever sends must never wait for what the reader's process does.
void read_messages(const std::shared_ptr<channel>& from) {
    post_office& office = the_post_office();
    for (bool open = true; open;) {
        letter l;
        l.from = from;
        open = read_all(from->socket, &l.head, sizeof l.head);
        if (open && l.head.bytes) {
            l.body.resize(l.head.bytes);
            open = read_all(from->socket, l.body.data(), l.body.size());
        }
        if (!open) l.head.what = kind::ended;
        {
            const std::lock_guard<std::mutex> guard(office.lock);
            office.inbox.push_back(std::move(l));
        }
        office.filled.notify_one();
    }
}

void hear_of_loss(clique& all, int rank) {
    // NVIDIA's tells it in one way or another: by an error, or not at all.
    if (setting("NCCL_LOST", "hang") == "error" && !all.broken) all.broken = result::remote_error;
    (void)rank;
}
void forget_if_over(const clique& all) {
    if (all.ranks && all.left >= all.ranks) the_cliques().erase(all.id);
}

collective call_of(const message& m) {
    static constexpr const char* names[] = {"ncclAllReduce", "ncclAllGather", "ncclBroadcast", "ncclReduceScatter"};
    collective c;
    for (const char* name : names)
        if (std::strcmp(name, m.name) == 0) c.name = name;
    c.count = m.count, c.type = m.type, c.reduction = m.reduction, c.root = m.root, c.gives_all = m.gives_all, c.gets_all = m.gets_all;
    return c;
}

// In the process that made the id: a process asks for a rank.
void decide(clique& all, const letter& l) {
    std::string why;
    message answer = l.head;
    answer.code = join(all, l.head.ranks, l.head.rank, l.head.device, why);
    if (!answer.code) {
        l.from->ranks.push_back(l.head.rank);
        answer.what = kind::joined;
        send_to_others(all, answer);
        answer.what = kind::accepted;
        return send_to(*l.from, answer);
    }
    answer.what = kind::refused;
    send_to(*l.from, answer, why.data(), why.size());
    if (all.broken) tell_broken(all);
}
// The ranks that joined over a connection that ended are gone, but for those that had left.
void lose(const std::shared_ptr<channel>& from) {
    std::vector<std::shared_ptr<clique>> hurt;
    for (const auto& c : the_cliques())
        for (const auto& each : c.second->channels)
            if (each == from) hurt.push_back(c.second);
    for (const auto& all : hurt) {
        clique& c = *all;
        for (std::size_t i = c.channels.size(); i-- > 0;)
            if (c.channels[i] == from) c.channels.erase(c.channels.begin() + static_cast<std::ptrdiff_t>(i));
        if (c.elsewhere) {
            c.cut = true;
            if (c.left < c.ranks) hear_of_loss(c, 0);
            continue;
        }
        for (const int rank : from->ranks) {
            if (c.has_left[static_cast<std::size_t>(rank)]) continue;
            message m;
            m.what = kind::gone, m.id = c.id, m.rank = rank;
            send_to_others(c, m);
            hear_of_loss(c, rank);
        }
    }
}

void apply(const letter& l) {
    const message& m = l.head;
    if (m.what == kind::ended) return lose(l.from);
    const auto at = the_cliques().find(m.id);
    if (at == the_cliques().end()) {
        // All ranks of this process have left, or there never was such an id.
        if (m.what != kind::join) return;
        const std::string why = "an id that ncclGetUniqueId did not give in the process that it names, or whose ranks have all gone";
        message answer = m;
        answer.what = kind::refused, answer.code = result::invalid_argument;
        return send_to(*l.from, answer, why.data(), why.size());
    }
    const std::shared_ptr<clique> all = at->second;
    const bool relays = !all->elsewhere;
    switch (m.what) {
    case kind::hello: {
        all->channels.push_back(l.from);
        for (int r = 0; r < all->ranks; ++r) {
            if (!all->taken[static_cast<std::size_t>(r)]) continue;
            message known;
            known.what = kind::joined, known.id = m.id, known.rank = r, known.ranks = all->ranks, known.device = all->devices[static_cast<std::size_t>(r)];
            send_to(*l.from, known);
        }
        return;
    }
    case kind::join: return decide(*all, l);
    case kind::joined: {
        std::string why;
        join(*all, m.ranks, m.rank, m.device, why);
        return;
    }
    case kind::accepted: all->answers[m.rank] = result::success; return;
    case kind::refused:
        problem("invalid_comm", std::string(l.body.begin(), l.body.end()));
        all->answers[m.rank] = m.code;
        return;
    case kind::put:
        if (relays) send_to_others(*all, m, nullptr, 0, l.from.get());
        if (const auto r = next_round(call_of(m), *all, m.call, m.rank)) {
            all->awaited[{m.rank, m.call}] = r;
            if (++r->put == all->ranks) all->rounds.erase(m.call);
        }
        return;
    case kind::data: {
        if (relays) send_to_others(*all, m, l.body.data(), l.body.size(), l.from.get());
        const auto r = all->awaited.find({m.rank, m.call});
        if (r == all->awaited.end()) return;
        const auto rank = static_cast<std::size_t>(m.rank);
        r->second->inputs[rank] = l.body;
        r->second->is_here[rank] = 1;
        ++r->second->contributed;
        all->awaited.erase(r);
        return;
    }
    case kind::left:
        if (relays) send_to_others(*all, m, nullptr, 0, l.from.get());
        all->has_left[static_cast<std::size_t>(m.rank)] = 1;
        ++all->left;
        return forget_if_over(*all);
    case kind::gone: return hear_of_loss(*all, m.rank);
    case kind::broken:
        if (relays) send_to_others(*all, m, nullptr, 0, l.from.get());
        if (!all->broken) all->broken = m.code;
        return;
    case kind::ended: return;
    }
}
void apply_letters() {
    post_office& office = the_post_office();
    for (;;) {
        letter l;
        {
            std::unique_lock<std::mutex> guard(office.lock);
            office.filled.wait(guard, [&] { return !office.inbox.empty(); });
            l = std::move(office.inbox.front());
            office.inbox.pop_front();
        }
        waiting_lock lock;
        apply(l);
        lock.changed();
    }
}

sockaddr_un address_of(const std::string& name, socklen_t& bytes) {
    sockaddr_un a = {};
    a.sun_family = AF_UNIX;
    // A first byte of 0: the name is in no file system, and ends with its process.
    std::memcpy(a.sun_path + 1, name.data(), name.size());
    bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    return a;
}
void begin_applying() {
    static const bool begun = (std::thread(apply_letters).detach(), true);
    (void)begun;
}
void listen_to_processes(post_office& office) {
    std::random_device random;
    const std::string name = "graft_simulator_nccl." + std::to_string(getpid()) + "." + std::to_string(random());
    socklen_t bytes = 0;
    const sockaddr_un a = address_of(name, bytes);
    const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, reinterpret_cast<const sockaddr*>(&a), bytes) != 0 || listen(listener, 64) != 0) return;
    office.address = name;
    begin_applying();
    std::thread([listener] {
        for (;;) {
            const int socket = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
            if (socket < 0) continue;
            auto made = std::make_shared<channel>();
            made->socket = socket;
            std::thread(read_messages, made).detach();
        }
    }).detach();
}

message about(const clique& all, kind what, int rank) {
    message m;
    m.what = what, m.id = all.id, m.rank = rank, m.ranks = all.ranks;
    return m;
}

}  // namespace

std::map<std::uint64_t, std::shared_ptr<clique>>& the_cliques() {
    static auto* cliques = new std::map<std::uint64_t, std::shared_ptr<clique>>;  // never destroyed, as the simulator's state
    return *cliques;
}

const std::string& own_address() {
    post_office& office = the_post_office();
    if (office.address.empty()) listen_to_processes(office);
    return office.address;
}

std::shared_ptr<clique> connect_clique(const std::string& address, std::uint64_t id) {
    socklen_t bytes = 0;
    if (address.empty() || address.size() > sizeof(sockaddr_un::sun_path) - 1) return nullptr;
    const sockaddr_un a = address_of(address, bytes);
    auto made = std::make_shared<channel>();
    made->socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (made->socket < 0 || connect(made->socket, reinterpret_cast<const sockaddr*>(&a), bytes) != 0) return nullptr;
    begin_applying();
    const auto all = std::make_shared<clique>();
    all->id = id;
    all->elsewhere = true;
    all->channels.push_back(made);
    the_cliques()[id] = all;
    send_to(*made, about(*all, kind::hello, 0));
    std::thread(read_messages, made).detach();
    return all;
}

void ask_to_join(const clique& all, int ranks, int rank, int device) {
    message m = about(all, kind::join, rank);
    m.ranks = ranks, m.device = device;
    send_to_others(all, m);
}
void tell_joined(const clique& all, int rank, int device) {
    message m = about(all, kind::joined, rank);
    m.device = device;
    send_to_others(all, m);
}
void tell_put(const clique& all, int rank, std::uint64_t number, const collective& call) {
    message m = about(all, kind::put, rank);
    m.call = number, m.count = call.count, m.type = call.type, m.reduction = call.reduction, m.root = call.root;
    m.gives_all = call.gives_all, m.gets_all = call.gets_all;
    std::strncpy(m.name, call.name, sizeof m.name - 1);
    send_to_others(all, m);
}
void tell_data(const clique& all, int rank, std::uint64_t number, const std::vector<unsigned char>& bytes) {
    message m = about(all, kind::data, rank);
    m.call = number;
    send_to_others(all, m, bytes.data(), bytes.size());
}
void tell_left(const clique& all, int rank) { send_to_others(all, about(all, kind::left, rank)); }
void tell_broken(const clique& all) {
    message m = about(all, kind::broken, 0);
    m.code = all.broken;
    send_to_others(all, m);
}

}  // namespace graft_simulator
