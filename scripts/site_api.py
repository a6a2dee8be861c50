"""The reference of the API as pages: what Doxygen reads from the comments of the headers, a page for each header that has a public name.

Public are the classes and types that fwd.hpp names, and the documented functions beside them that are not inline: those inside are (CONTRIBUTING, Rules).
"""
import collections
import html
import pathlib
import re
import subprocess
import xml.etree.ElementTree as xml

FOLDERS = ["core", "tensor", "graph", "ops", "io", "passes", "lower", "plan", "cpu", "gpu", "exec", "data", "train", "dist"]
DOXYFILE = """
INPUT = "{root}/include/graft"
RECURSIVE = YES
FILE_PATTERNS = *.hpp
STRIP_FROM_PATH = "{root}/include"
OUTPUT_DIRECTORY = "{output}"
GENERATE_HTML = NO
GENERATE_LATEX = NO
GENERATE_XML = YES
XML_PROGRAMLISTING = NO
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
SEARCH_INCLUDES = NO
PREDEFINED = GRAFT_BEGIN_NAMESPACE="namespace graft {{" GRAFT_END_NAMESPACE="}}" GRAFT_INLINE= GRAFT_MEMORY_TRY= GRAFT_HAS_BODIES=0
EXCLUDE_SYMBOLS = *detail*
HIDE_UNDOC_MEMBERS = NO
QUIET = YES
WARN_IF_UNDOCUMENTED = NO
WARNINGS = NO
AUTOLINK_SUPPORT = NO
"""


def text_of(node):
    """The text of an element and all in it, its spaces as one."""
    return re.sub(r"\s+", " ", "".join(node.itertext())).strip() if node is not None else ""


def type_of(member):
    """Its type as the headers write types."""
    return re.sub(r" ([&*>])", r"\1", text_of(member.find("type")).replace("< ", "<"))


def escaped(text):
    return re.sub(r"([\\`*_{}\[\]<>#|])", r"\\\1", text)


def prose(node):
    """What Doxygen made of a comment, as Markdown in one line a paragraph."""
    if node is None:
        return ""
    out = escaped(node.text or "")
    for child in node:
        if child.tag == "computeroutput":
            code = "".join(child.itertext())
            out += f"`{code}`" if "`" not in code else f"`` {code} ``"
        elif child.tag == "listitem":
            out += f"\n- {prose(child).strip()}"
        elif child.tag == "para":
            out += f"\n\n{prose(child).strip()}\n\n"
        elif child.tag == "ulink":
            out += f"[{prose(child)}]({child.get('url')})"
        elif child.tag in ("emphasis", "bold"):
            mark = "*" if child.tag == "emphasis" else "**"
            out += f"{mark}{prose(child)}{mark}"
        elif child.tag in ("programlisting", "verbatim"):
            out += "\n\n```cpp\n" + "".join(child.itertext()).strip("\n") + "\n```\n\n"
        elif child.tag in ("ndash", "mdash"):
            out += "–"
        elif child.tag == "linebreak":
            out += "  \n"
        else:
            out += prose(child)
        out += escaped(child.tail or "")
    return out


def comment(member):
    parts = [prose(member.find(tag)).strip() for tag in ("briefdescription", "detaileddescription")]
    return "\n\n".join(re.sub(r"\n{3,}", "\n\n", p) for p in parts if p)


def is_documented(member):
    return bool(text_of(member.find("briefdescription")) or text_of(member.find("detaileddescription")))


def template_of(member):
    listed = member.find("templateparamlist")
    if listed is None:
        return ""
    return "template <" + ", ".join(" ".join(filter(None, [text_of(p.find("type")), p.findtext("declname")])) for p in listed) + ">\n"


def declaration(member):
    """A member as its header has it, without its body."""
    kind, name, of = member.get("kind"), member.findtext("name"), type_of(member)
    if kind == "function":
        arguments = (member.findtext("argsstring") or "").replace(" &", "&").replace(" *", "*").replace("< ", "<").replace(" >", ">")
        arguments = re.sub(r"&(?=\w)", "& ", re.sub(r"\*(?=\w)", "* ", arguments.replace(")const", ") const").replace(")&", ") &")))
        head = "static " if member.get("static") == "yes" else "explicit " if member.get("explicit") == "yes" else ""
        virtual = "virtual " if member.get("virt") in ("virtual", "pure-virtual") else ""
        arguments = re.sub(r"\s*=\s*", " = ", arguments)
        return f"{template_of(member)}{head}{virtual}{of + ' ' if of else ''}{name}{arguments};"
    if kind == "typedef":
        return member.findtext("definition") + ";"
    initial = text_of(member.find("initializer"))
    return f"{'static ' if member.get('static') == 'yes' else ''}{of} {name}{member.findtext('argsstring') or ''}{' ' + initial if initial else ''};"


def place(member):
    at = member.find("location")
    file = (at.get("declfile") or at.get("file")) if at is not None else ""
    return re.sub(r"_body\.hpp$", ".hpp", file), int(at.get("declline") or at.get("line")) if at is not None else 0


def enumeration(member):
    if member.findtext("enumvalue/name") == "GRAFT_X":
        return "The values, and what to do about each, are in [errors](../docs/errors.md)."
    rows = [(v.findtext("name"), text_of(v.find("initializer")), comment(v).replace("\n", " ")) for v in member.findall("enumvalue")]
    lines = ["| value | meaning |", "| --- | --- |"]
    return "\n".join(lines + [f"| `{name}{' ' + value if value else ''}` | {what} |" for name, value, what in rows])


def members_of(compound):
    """The public members, as they stand in the header: fields as a table, functions each with its comment."""
    found = [m for section in compound.findall("sectiondef") for m in section.findall("memberdef") if m.get("prot") == "public"]
    found.sort(key=lambda m: place(m)[1])
    fields = [m for m in found if m.get("kind") == "variable"]
    others = [m for m in found if m.get("kind") in ("function", "typedef") and "=delete" not in (m.findtext("argsstring") or "").replace(" ", "")]
    out = []
    if fields:
        out.append("| field | default | what it is |\n| --- | --- | --- |")
        for f in fields:
            kind = type_of(f).replace("|", "\\|")
            initial = text_of(f.find("initializer")).lstrip("= ").replace("|", "\\|")
            out.append(f"| `{kind} {f.findtext('name')}` | {f'`{initial}`' if initial and initial != '{}' else ''} | {comment(f).replace(chr(10), ' ')} |")
        out.append("")
    for values in (m for m in found if m.get("kind") == "enum"):
        out += [f"`enum {values.findtext('name')}`: {comment(values)}", "", enumeration(values), ""]
    together = []
    for m in others:  # neighbours without a comment share a block
        if is_documented(m) or not together or together[-1][0]:
            together.append([comment(m), []])
        together[-1][1].append(declaration(m))
    for what, declared in together:
        out += ["```cpp", *declared, "```", "", what, ""] if what else ["```cpp", *declared, "```", ""]
    return "\n".join(out)


def named_in_fwd(root):
    """Every public name under the title that fwd.hpp gives its group, with its namespace."""
    groups, title, spaces = collections.OrderedDict(), "", ["graft"]
    for line in (root / "include/graft/fwd.hpp").read_text().splitlines():
        if found := re.match(r"// (.*)\.$", line):
            title = found[1]
        elif found := re.match(r"namespace (\w+) \{", line):
            spaces.append(found[1])
        elif line.startswith("}") and len(spaces) > 1:
            spaces.pop()
        elif found := re.match(r"(?:class|struct|enum class|using) (\w+)", line):
            groups.setdefault(title, []).append("::".join([*spaces, found[1]]))
    return groups


def read(root, output):
    output.mkdir(parents=True, exist_ok=True)
    (output / "Doxyfile").write_text(DOXYFILE.format(root=root, output=output))
    subprocess.run(["doxygen", output / "Doxyfile"], check=True)
    compounds = {}
    functions, types = [], {}
    for file in sorted((output / "xml").glob("*.xml")):
        compound = xml.parse(file).getroot().find("compounddef")
        if compound is None:
            continue
        if compound.get("kind") in ("class", "struct"):
            compounds[compound.findtext("compoundname")] = compound
        elif compound.get("kind") == "namespace" and re.fullmatch(r"graft(::cpu|::backends)?", compound.findtext("compoundname")):
            for m in compound.iter("memberdef"):
                if m.get("kind") in ("enum", "typedef"):
                    types[f"{compound.findtext('compoundname')}::{m.findtext('name')}"] = m
                elif m.get("kind") == "function" and compound.findtext("compoundname") == "graft":
                    functions.append(m)
    return compounds, types, functions


def write_pages(root, to):
    """Writes a page for each header and one that lists them; gives their places in the site's navigation."""
    root, to = pathlib.Path(root), pathlib.Path(to)
    groups = named_in_fwd(root)
    compounds, types, functions = read(root, root / "build/site/doxygen")
    parts = collections.defaultdict(list)  # of each header: line, name, text
    briefs, homes = {}, {}
    for name in (n for names in groups.values() for n in names):
        node = compounds.get(name, types.get(name))
        if node is None or not is_documented(node):
            continue
        header, line = place(node)
        short = name.removeprefix("graft::")
        kind = node.get("kind")
        body = members_of(node) if name in compounds else enumeration(node) if kind == "enum" else f"```cpp\n{declaration(node)}\n```"
        parts[header].append((line, short, f"## {short} {{#{short.replace('::', '-')}}}\n\n`{'enum class' if kind == 'enum' else 'using' if kind == 'typedef' else kind} {name}`\n\n{comment(node)}\n\n{body}\n"))
        briefs[name], homes[name] = comment(node).split("\n")[0], (header, short.replace("::", "-"))
    told = collections.OrderedDict()
    for m in sorted((m for m in functions if m.get("inline") == "no"), key=place):
        header, line = place(m)
        key = (header, m.findtext("name"))
        if not is_documented(m) and key not in told:
            continue
        told.setdefault(key, [line, []])[1].append(m)
    for (header, name), (line, overloads) in told.items():
        if name.startswith("operator"):
            continue
        text = "\n".join(f"```cpp\n{declaration(m)}\n```\n\n{comment(m)}\n" for m in overloads)
        parts[header].append((line, name, f"## {name} {{#{name}-function}}\n\n{text}"))
        briefs.setdefault(f"{header}:{name}", comment(overloads[0]).split("\n")[0])
    write_headers(root, to, parts)
    write_index(to, groups, briefs, homes, told)
    return navigation(parts)


def page_name(header):
    return header.removeprefix("graft/").removesuffix(".hpp").replace("/", "-") + ".md"


def write_headers(root, to, parts):
    to.mkdir(parents=True, exist_ok=True)
    for header, sections in parts.items():
        first = (root / "include" / header).read_text().split("\n", 1)[0]
        says = html.escape(first.removeprefix("// "), quote=False) if first.startswith("// ") else ""
        text = "\n".join(section for _, _, section in sorted(sections))
        (to / page_name(header)).write_text(f"# {header.removeprefix('graft/')}\n\n```cpp\n#include <{header}>\n```\n\n{says}\n\n{text}")


def write_index(to, groups, briefs, homes, told):
    lines = ["# API", "", "Every public name, from the comments of the headers. A program includes an umbrella, such as `<graft/graft.hpp>` or `<graft/train.hpp>`; "
             "each page is named for the header that a name stands in.", ""]
    for title, names in groups.items():
        here = [n for n in names if n in homes]
        if here:
            lines += [f"## {title}", "", "| name | what it is |", "| --- | --- |"]
            lines += [f"| [`{n.removeprefix('graft::')}`]({page_name(homes[n][0])}#{homes[n][1]}) | {briefs[n]} |" for n in here]
            lines.append("")
    lines += ["## Functions", "", "| function | header | what it does |", "| --- | --- | --- |"]
    for header, name in sorted((k for k in told if not k[1].startswith("operator")), key=lambda k: (k[1], k[0])):
        lines.append(f"| [`{name}`]({page_name(header)}#{name}-function) | {header.removeprefix('graft/')} | {briefs[f'{header}:{name}']} |")
    (to / "README.md").write_text("\n".join(lines) + "\n")


def navigation(parts):
    entries = ["api/README.md"]
    by_folder = collections.defaultdict(list)
    for header in sorted(parts):
        inside = header.removeprefix("graft/").split("/")
        by_folder[inside[0] if len(inside) > 1 else "umbrellas"].append({inside[-1]: f"api/{page_name(header)}"})
    for folder in ["umbrellas", *FOLDERS]:
        if by_folder[folder]:
            entries.append({folder: by_folder[folder]})
    return entries
