// Proposals of what to change in a dataset, and the file fixes.csv that holds them.
#pragma once

#include "program.hpp"

#include <graft/data/check.hpp>
#include <graft/train/label_issues.hpp>

#include <map>
#include <set>
#include <string>
#include <vector>

namespace program {

/// A proposal: a row of fixes.csv. Nothing is done by itself; `graft fix` carries rows out.
struct proposed_fix {
    std::int64_t id = 0;      ///< from 1; what `--only` and a report call the row
    std::string path;         ///< of the picture, below the dataset's folder
    std::string action;       ///< "move" to another class, or "drop"
    std::string to;           ///< the class of a move
    std::string reason;       ///< "mislabelled", "leak", "label_conflict", "unreadable"
    double probability = -1;  ///< that the network, or the neighbours' votes, give the class of a move; below 0: nobody was asked
    std::string evidence;     ///< who says so: "contents", "neighbours", the network of what it was scored by ("validation") or learnt from ("training")
    std::string detail;       ///< a sentence for a reader
    std::string other;        ///< the copy that stays, of one that is dropped
    std::string contents;     ///< "xxh64:" and 16 hexadecimal digits of the file; empty: not known
};

/// fixes.csv in memory.
struct fix_list {
    std::string dataset;  ///< its absolute path; empty where the rows do not name one
    std::vector<proposed_fix> rows;
};

/// By what a file is known to be still the same: the XXH64 of its bytes, as text.
std::string contents_text(const std::string& bytes);
/// The fingerprint of a file's contents, as rows have it. Errors: data.open, memory.budget (over 2 GiB).
graft::result<std::string> contents_of(const std::string& path);

/// The folder that names of a dataset's pictures begin with: itself, or the one that its file lies in.
std::string folder_of_dataset(const std::string& data);
/// A name of the dataset's without that folder.
std::string below(const std::string& folder, const std::string& name);
/// An absolute path without links and dots; the path as it is where it leads nowhere.
std::string absolute_path(const std::string& path);

/// Whether samples of the dataset are files of their own, and no pixels in an IDX or CIFAR file.
bool has_files(const graft::dataset& data);

/// Gathers proposals, one a picture; of several reasons for one the first of this order holds: it cannot be read, it lies in two parts, in two
/// classes, its label is doubted. Doubts are proposed from a margin of one half on: the other class has so much more of the probability, or of
/// the votes, than the label.
class fix_proposer {
public:
    /// `data`: the dataset as it was given.
    explicit fix_proposer(std::string data);

    /// How the neighbours of pictures are labelled (graft::vote_of_neighbours): what they say of those that `learnt_from` holds is proposed, of others it
    /// has to agree with the network, which is asked behind it. `paths[i]` is of vote i.
    void add_votes(const std::vector<std::string>& paths, const std::vector<std::string>& classes, const std::vector<graft::scored_picture>& votes,
                   const std::set<std::string>& learnt_from);
    /// What a network said of some pictures of `data`; `evidence` as rows have it.
    void add_scored(const graft::dataset& data, const std::vector<graft::scored_picture>& pictures, const char* evidence);
    /// What a check found, of the pictures called `samples`. Pictures that cannot be read are to be dropped. Of copies in two parts the one of the earlier part
    /// goes, with its own copies there: what is scored by stays what it was. Of copies in two classes of one part the one goes whose label the network or the
    /// neighbours give less probability, or where none were asked the later one.
    void add_report(const graft::dataset_report& report, const std::set<std::string>& samples);
    /// All rows, numbered; pictures that are gone meanwhile are left out.
    fix_list take();

private:
    void propose(proposed_fix row);
    void doubt(const std::string& path, const std::string& label, const std::string& other, const graft::label_issue& issue, const std::string& evidence);
    void add_copies(const graft::dataset_report& report);

    std::string data_, folder_;
    std::vector<proposed_fix> rows_, doubted_;
    std::set<std::string> taken_;
    std::map<std::string, double> self_confidence_;  // of pictures that a network was asked about, by path
    std::map<std::string, std::string> voted_;       // by path the class that the neighbours are for by that margin; "": they are for none so much
};

/// Writes fixes.csv. Errors: file.write.
graft::status write_fixes(const fix_list& fixes, const std::string& path);
/// Reads it, or any CSV file with the columns path and action. Errors: data.open, data.format, memory.budget.
graft::result<fix_list> read_fixes(const std::string& path);

}  // namespace program
