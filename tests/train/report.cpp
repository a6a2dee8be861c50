// The report: everything that was given is on the page, nothing given can become markup, nothing is fetched from elsewhere.
#include <doctest/doctest.h>
#include <graft/train/base64.hpp>
#include <graft/train/report.hpp>
#include <graft/train/report_script.hpp>

#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

namespace {

std::size_t count(const std::string& text, const std::string& part) {
    std::size_t n = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
    return n;
}

graft::training_report report_of(int classes) {
    graft::training_report r;
    r.title = "A run";
    r.model = "net.onnx";
    r.command = "graft finetune a & b";
    r.metrics = graft::classification_metrics::make(classes).value();
    std::vector<float> logits(static_cast<std::size_t>(classes));
    for (std::int64_t i = 0; i < 4 * classes; ++i) {
        const std::int64_t label = i % classes, taken = i % 3 ? label : (label + 1) % classes;
        for (auto& l : logits) l = 0;
        logits[static_cast<std::size_t>(taken)] = 3;
        graft::must(r.metrics.add(logits.data(), &label, 1));
    }
    for (int i = 0; i < classes; ++i) r.classes.push_back("class " + std::to_string(i));
    for (int e = 1; e <= 5; ++e) {
        graft::epoch_figures f;
        f.epoch = e;
        f.train_loss = 1.0 / e;
        f.val_loss = e == 3 ? std::numeric_limits<double>::quiet_NaN() : 1.2 / e;
        f.val_top1 = 1 - 0.5 / e;
        f.seconds = 75;
        r.epochs.push_back(f);
    }
    r.best_epoch = 5;
    for (int s = 0; s < 5000; ++s) r.step_losses.emplace_back(s / 1000.0, 1.0 / (1 + s));
    r.timing = {{"forward and backward", 30}, {"waiting", 10}};
    r.settings = {{"batch", "16"}};
    return r;
}

// Every element that must be closed is closed, in order.
bool well_nested(const std::string& page) {
    const std::vector<std::string> watched = {"section", "figure",  "svg",  "table",      "div",  "header", "body", "html", "main", "g",
                                              "p",       "details", "text", "figcaption", "code", "title",  "span", "b",    "i"};
    std::vector<std::string> open;
    for (std::size_t at = page.find('<'); at < page.find("<script>"); at = page.find('<', at + 1)) {
        const bool closing = page[at + 1] == '/';
        const std::size_t begin = at + 1 + closing, end = page.find_first_of(" >/", begin);
        const std::string name = page.substr(begin, end - begin);
        bool known = false;
        for (const auto& w : watched) known |= w == name;
        if (!known || page[page.find('>', at) - 1] == '/') continue;
        if (!closing) {
            open.push_back(name);
        } else {
            if (open.empty() || open.back() != name) return false;
            open.pop_back();
        }
    }
    return open == std::vector<std::string>{"html", "body"};
}

// The page without its one script, and the text of that.
std::string without_script(const std::string& page) {
    const std::size_t from = page.find("<script>"), end = page.find("</script>");
    return page.substr(0, from) + page.substr(std::min(end + 9, page.size()));
}
std::string script_of(const std::string& page) {
    const std::size_t from = page.find("<script>") + 8;
    return page.substr(from, page.find("</script>") - from);
}

}  // namespace

TEST_CASE("A report stands on its own: one script that its policy names, nothing from elsewhere, well nested, the same bytes each time") {
    for (const int classes : {2, 5, 20, 40, 70}) {
        CAPTURE(classes);
        const graft::training_report r = report_of(classes);
        const std::string page = graft::report_html(r).value();
        CHECK(page == graft::report_html(r).value());
        CHECK(count(page, "<script") == 1);
        CHECK(script_of(page) == graft::detail::report_script());
        for (const char* absent : {"<script", "http:", "https:", "<link", "@import", "url(", "nan", "inf,"})
            CHECK_MESSAGE(without_script(page).find(absent) == std::string::npos, absent);
        CHECK(page.find("default-src 'none';img-src data:;style-src 'unsafe-inline';script-src '" + std::string(graft::detail::report_script_hash()) + "'") <
              page.find("<style>"));
        for (const char* present :
             {"A run", "net.onnx", "graft finetune a &amp; b", "Class by class", "1 min 15 s", "prefers-color-scheme:dark", "name=\"viewport\""})
            CHECK_MESSAGE(page.find(present) != std::string::npos, present);
        CHECK((page.find("Confusion matrix") != std::string::npos) == (classes <= 60));
        CHECK(well_nested(page));
        CHECK(page.size() < 1000000);
    }
}

TEST_CASE("A report tells what a GPU did in the epochs in which it told") {
    graft::training_report r = report_of(2);
    CHECK(graft::report_html(r).value().find("What the GPU did") == std::string::npos);
    r.epochs[1].device_busy = 0.625;
    r.epochs[1].device_watts = 312;
    r.epochs[1].device_celsius = 64;
    r.epochs[4].device_bytes = 3.5e9;
    const std::string page = graft::report_html(r).value();
    CHECK(well_nested(page));
    const std::string part = page.substr(page.find("What the GPU did"));
    CHECK(part.find("<tr><td>2<td>62.5\u202f%<td>\u2013<td>312\u202fW<td>64\u202f\u00b0C</tr>") != std::string::npos);
    CHECK(part.find("<tr><td>5<td>\u2013<td>3.50\u202fGB<td>\u2013<td>\u2013</tr>") != std::string::npos);
    CHECK(part.find("<tr><td>1<") == std::string::npos);
    CHECK(part.find("share of the time in which a kernel ran") != std::string::npos);
}

TEST_CASE("A report tells how members of a run waited for each other, and who held them up") {
    graft::training_report r = report_of(2);
    CHECK(graft::report_html(r).value().find("Members") == std::string::npos);
    r.members = {{0, "a & b", 100, 10, 0, "cuda:0", 1500000}, {1, "c", 100, 10, 5, "cpu", 0}};
    const std::string page = graft::report_html(r).value();
    CHECK(well_nested(page));
    const std::string part = page.substr(page.find("<h2>Members"));
    for (const char* present :
         {"20 images/s of the 30 that they would", "an efficiency of <b>66.7\u202f%</b>",
          "<td>0<td class=\"text\">a &amp; b<td class=\"text\">cuda:0<td>100<td>10 s", "<td>1<td class=\"text\">c<td class=\"text\">cpu<td>100<td>5.0 s",
          "<td>1.50\u202fMB</tr>", "<tr class=\"best\"><td>2<td class=\"text\">measured<td>20<td>66.7\u202f%",
          "<tr><td>1<td class=\"text\">predicted<td>15<td>100", "<tr><td>8<td class=\"text\">predicted<td>27 to 64<td>22.2\u202f% to 53.3\u202f%",
          "<b>predictions</b>", "rank 0 (host a &amp; b) takes 2.0 times as long"})
        CHECK_MESSAGE(part.find(present) != std::string::npos, present);
    for (graft::member_record& m : r.members) m.host.clear();
    CHECK(graft::report_html(r).value().find("<th>replica<th class=\"text\">device<th>samples") != std::string::npos);
}

TEST_CASE("A report tells what the stages of a pipeline computed, and of one that does not measure it says so") {
    graft::training_report r = report_of(2);
    CHECK(graft::report_html(r).value().find("<h2>Stages") == std::string::npos);
    r.stages = {{"cpu:0", 20, 15, 3000000}, {"<cuda:0>", 20, -1, 4500000}};
    const std::string page = graft::report_html(r).value();
    CHECK(well_nested(page));
    const std::string part = page.substr(page.find("<h2>Stages"));
    for (const char* present : {"<td>1<td class=\"text\">cpu:0<td>15 s", "25.0\u202f%", "<td>3.00\u202fMB",
                                "<td>2<td class=\"text\">&lt;cuda:0&gt;<td>\u2013<td class=\"text\">not measured"})
        CHECK_MESSAGE(part.find(present) != std::string::npos, present);
}

TEST_CASE("Nothing that a file or a user gave becomes markup") {
    graft::training_report r = report_of(2);
    const std::string evil = "<script>alert(\"x\")</script>'&\x01\xff";
    const std::string safe = "&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;&#39;&amp;\\x01\\xff";
    r.title = r.model = r.data = r.device = r.command = r.version = evil;
    r.classes = {evil, evil};
    r.settings = {{evil, evil}};
    r.timing = {{evil, 1}};
    r.notes = {evil};
    graft::report_picture p;
    p.picture = graft::image::make(3, 3, 1).value();
    for (int i = 0; i < 9; ++i) p.picture.data()[i] = 9;
    p.path = evil;
    p.predicted = 1;
    p.remedy = p.command = evil;
    r.wrong = r.doubted = {p};
    r.copies.push_back({p.picture, p.picture, evil, evil, evil, evil});
    r.fixes = r.fixes_command = evil;
    const std::string page = graft::report_html(r).value();
    CHECK(count(page, "<script") == 1);
    CHECK(script_of(page) == graft::detail::report_script());
    CHECK(page.find('\x01') == std::string::npos);
    CHECK(page.find('\xff') == std::string::npos);
    CHECK(count(page, safe) > 24);
    CHECK(well_nested(page));
}

TEST_CASE("Pictures are inside, shrunk to what is shown") {
    graft::training_report r = report_of(3);
    graft::report_picture p;
    p.picture = graft::image::make(1000, 500, 3).value();
    for (std::int64_t i = 0; i < p.picture.bytes(); ++i) p.picture.data()[i] = static_cast<std::uint8_t>(i / 500);
    p.path = "val/a/b.jpg";
    p.truth = 1;
    p.predicted = 2;
    p.probability = 0.875;
    r.wrong = {p, p};
    r.maps = {p};
    const std::string page = graft::report_html(r).value();
    CHECK(count(page, "src=\"data:image/png;base64,iVBORw0KGgo") == 3);
    CHECK(count(page, "width=\"160\" height=\"320\"") == 3);
    CHECK(page.find("taken for <b class=\"bad\">class 2</b> 87.5") != std::string::npos);
    r.wrong[0].truth = 3;
    CHECK(graft::report_html(r).error().code() == graft::errc::data_label_range);
}

TEST_CASE("A report has the line that mends the dataset beside each picture that it doubts, and beside each pair of copies") {
    graft::training_report r = report_of(3);
    graft::report_picture p;
    p.picture = graft::image::make(40, 40, 3).value();
    for (std::int64_t i = 0; i < p.picture.bytes(); ++i) p.picture.data()[i] = static_cast<std::uint8_t>(i);
    p.path = "val/a/b.jpg";
    p.predicted = 2;
    r.wrong = {p};
    CHECK(graft::report_html(r).value().find("<code") == std::string::npos);
    p.remedy = "Move it to class 2:";
    p.command = "graft fix run/fixes.csv --only 4";
    r.wrong = {p};
    r.doubted = {p, p};
    r.copies.push_back({p.picture, p.picture, "train/a/1.jpg", "val/a/2.jpg", "Drop it:", "graft fix run/fixes.csv --only 1"});
    r.fixes = "Pictures that are there twice: 1.";
    r.fixes_command = "graft fix run/fixes.csv --dry-run";
    const std::string page = graft::report_html(r).value();
    CHECK(well_nested(page));
    CHECK(count(page, "<span class=\"remedy\">Move it to class 2:</span><code class=\"command\">graft fix run/fixes.csv --only 4</code>") == 3);
    CHECK(count(page, "<code class=\"command\">graft fix run/fixes.csv --only 1</code>") == 1);
    CHECK(count(page, "<code class=\"command\">graft fix run/fixes.csv --dry-run</code>") == 1);
    CHECK(count(page, "<img class=\"tiny\" alt=\"val/a/2.jpg\"") == 1);
    CHECK(count(page, "<img ") == 5);
}

TEST_CASE("Curves say where the head learnt alone and where the whole network did") {
    graft::training_report r = report_of(2);
    CHECK(graft::report_html(r).value().find("whole network") == std::string::npos);
    r.head_alone = 2;
    const std::string page = graft::report_html(r).value();
    CHECK(well_nested(page));
    CHECK(count(page, ">whole network</text>") == 2);  // of loss and accuracy; no rate was given
    CHECK(count(page, ">head alone</text>") == 2);
    r.head_alone = 5;  // to the end
    CHECK(graft::report_html(r).value().find("whole network") == std::string::npos);
}

#if !defined(_WIN32)
TEST_CASE("The policy of a page names its script by the right hash") {
    std::FILE* const file = std::fopen("graft_script.test", "wb");
    REQUIRE(file);
    std::fputs(graft::detail::report_script(), file);
    std::fclose(file);
    std::FILE* const tool = ::popen("sha256sum graft_script.test", "r");
    REQUIRE(tool);
    char hex[65] = {};
    const std::size_t read = std::fread(hex, 1, 64, tool);
    ::pclose(tool);
    std::remove("graft_script.test");
    REQUIRE(read == 64);
    std::string bytes;
    for (int i = 0; i < 64; i += 2) bytes += static_cast<char>(std::stoi(std::string(hex + i, 2), nullptr, 16));
    CHECK("sha256-" + graft::base64_encode(bytes) == graft::detail::report_script_hash());
}
#endif

TEST_CASE("A report with nothing in it is a page, and names that do not fit are refused") {
    const std::string page = graft::report_html({}).value();
    CHECK(well_nested(page));
    CHECK(page.find("<section>") == std::string::npos);
    graft::training_report r = report_of(3);
    r.classes.pop_back();
    CHECK(graft::report_html(r).error().code() == graft::errc::labels_count);
    CHECK(graft::write_report({}, "absent_folder/report.html").error().code() == graft::errc::file_write);
    REQUIRE(graft::write_report({}, "graft_report.test.html").ok());
    std::remove("graft_report.test.html");
}

TEST_CASE("Curves that are even, empty, single or not finite are drawn without harm") {
    const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
    for (const double value : {0.0, 1e17, 1e-300, 1e300, -5.0, nan, inf}) {
        graft::training_report r = report_of(2);
        for (auto& e : r.epochs) e.train_loss = e.val_loss = e.val_top1 = e.learning_rate = value;
        r.learning_rates = {{0, value}};
        r.step_losses = {{nan, value}, {1e17, value}, {1e17 + 16, value + 16}};
        const std::string page = graft::report_html(r).value();
        CHECK(page.size() < 200000);
        CHECK(page.find("nan") == std::string::npos);
        CHECK(well_nested(page));
        r.epochs.resize(1);
        CHECK(well_nested(graft::report_html(r).value()));
    }
}
