"""Asks dnf which packages installing some names takes. One question (JSON) on standard input, the answer (JSON) on
standard output. Nothing is installed and nothing outside the directories of the question is read or written."""

import json
import sys

import dnf
import dnf.exceptions
import dnf.module.module_base


def open_base(question):
    conf = dnf.conf.Conf()
    directory = question["dir"]
    conf.installroot = directory + "/root"
    conf.cachedir = directory + "/cache"
    conf.persistdir = directory + "/persist"
    conf.logdir = directory + "/log"
    conf.reposdir = []
    conf.varsdir = []
    conf.pluginpath = []
    conf.module_platform_id = question["platform"]
    conf.substitutions["arch"] = question["arch"]
    conf.substitutions["basearch"] = question["arch"]
    conf.substitutions["releasever"] = question["release"]
    conf.ignorearch = True
    conf.install_weak_deps = False
    conf.best = True
    conf.assumeyes = True  # a key that is named may be used
    conf.gpgcheck = True
    conf.skip_if_unavailable = False
    conf.zchunk = False
    conf.timeout = 60
    conf.retries = 3
    base = dnf.Base(conf)
    for source in question["repositories"]:
        repo = base.repos.add_new_repo(source["id"], conf, baseurl=[source["url"]])
        if source["user"]:
            repo.username, repo.password = source["user"], source["password"]
        repo.gpgkey = ["file://" + source["key"]]
        repo.repo_gpgcheck = source["signedMetadata"]
        repo.metadata_expire = -1
        if question["refresh"]:
            # Compares repomd.xml with the repository's; the lists are read again only when it has changed.
            repo._repo.expire()
    base.fill_sack(load_system_repo=False)
    if question["modules"]:
        try:
            dnf.module.module_base.ModuleBase(base).enable(question["modules"])
        except dnf.exceptions.MarkingErrors as e:
            raise dnf.exceptions.Error(one_line(e))
    return base


def one_line(error):
    return "; ".join(line.strip(" -") for line in str(error).splitlines() if line.strip(" -"))


def describe(package):
    kind, digest = package.chksum
    return {
        "name": package.name,
        "epoch": package.epoch,
        "version": package.version,
        "release": package.release,
        "arch": package.arch,
        "source": package.sourcerpm or "",
        "base": package.baseurl or "",  # xml:base: where the repository's files lie, if not in the repository
        "location": package.location,
        "repository": package.reponame,
        "checksum": dnf.base.hawkey.chksum_name(kind),
        "digest": digest.hex(),
        "size": package.downloadsize,
    }


def solve(base, names):
    """The packages of a root that has the names and what they need, or what stands in the way."""
    base.reset(goal=True)
    forms = [dnf.base.hawkey.FORM_NAME, dnf.base.hawkey.FORM_NA]
    unknown = []
    for name in names:
        try:
            base.install(name, forms=forms)
        except dnf.exceptions.MarkingError as e:
            unknown.append(one_line(e))
    if unknown:
        return {"error": "; ".join(unknown)}
    try:
        base.resolve()
    except dnf.exceptions.DepsolveError as e:
        return {"error": one_line(e)}
    return {"packages": [describe(p) for p in base.transaction.install_set]}


def listed(base, names):
    """Every package of some names, also those of other streams of modules."""
    query = base.sack.query(flags=dnf.base.hawkey.IGNORE_EXCLUDES)
    return [describe(p) for p in query.available().filter(name=names)]


def main():
    question = json.load(sys.stdin)
    bare, names = question["base"], question["names"]
    try:
        with open_base(question) as base:
            if question["list"]:
                json.dump({"listed": listed(base, question["list"])}, sys.stdout)
                return
            answer = {"bare": solve(base, bare), "whole": solve(base, bare + names), "alone": {}}
            if "error" in answer["whole"]:
                for name in names:
                    message = solve(base, bare + [name]).get("error")
                    if message:
                        answer["alone"][name] = message
    except (dnf.exceptions.Error, OSError) as e:
        answer = {"error": one_line(e)}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
