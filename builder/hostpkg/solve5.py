"""Does with version 5 of dnf what solve.py does with version 4: the same question, the same answer."""

import json
import os
import sys

import libdnf5


def open_base(question):
    base = libdnf5.base.Base()
    conf = base.get_config()
    directory = question["dir"]
    conf.installroot = directory + "/root"
    conf.cachedir = directory + "/cache5"
    conf.system_cachedir = directory + "/cache5"
    conf.persistdir = directory + "/persist"
    conf.logdir = directory + "/log"
    conf.reposdir = ()
    conf.varsdir = ()
    conf.plugins = False
    conf.use_host_config = False
    if question["platform"]:
        conf.module_platform_id = question["platform"]
    conf.ignorearch = True
    conf.install_weak_deps = False
    conf.best = True
    conf.assumeyes = True  # a key that is named may be used
    conf.skip_if_unavailable = False
    conf.zchunk = False
    conf.optional_metadata_types = (libdnf5.conf.METADATA_TYPE_FILELISTS,)  # a package may need any path
    conf.timeout = 60
    conf.retries = 3
    for name in "arch", "basearch":
        base.get_vars().set(name, question["arch"])
    base.get_vars().set("releasever", question["release"])
    enable(directory + "/root" + conf.system_state_dir, question["modules"])
    base.setup()
    sack = base.get_repo_sack()
    for source in question["repositories"]:
        repo = sack.create_repo(source["id"])
        conf = repo.get_config()
        conf.baseurl = (source["url"],)
        if source["user"]:
            conf.username, conf.password = source["user"], source["password"]
        conf.gpgkey = ("file://" + source["key"],)
        conf.repo_gpgcheck = source["signedMetadata"]
        if question["refresh"]:
            # Compares repomd.xml with the repository's; the lists are read again only when it has changed.
            repo.expire()
            conf.metadata_expire = 0
        else:
            conf.metadata_expire = -1
    sack.load_repos(libdnf5.repo.Repo.Type_AVAILABLE)
    return base


def enable(directory, modules):
    """Writes which streams of modules are enabled, as dnf notes it of a system."""
    os.makedirs(directory, exist_ok=True)
    with open(directory + "/modules.toml", "w", encoding="utf-8") as state:
        state.write('version = "1.0"\n\n[modules]\n')
        for module in modules:
            name, stream = module.split(":")
            state.write(f'{name} = {{enabled_stream = "{stream}", installed_profiles = [], state = "Enabled"}}\n')


def describe(package):
    checksum = package.get_checksum()
    return {
        "name": package.get_name(),
        "epoch": int(package.get_epoch() or 0),
        "version": package.get_version(),
        "release": package.get_release(),
        "arch": package.get_arch(),
        "source": package.get_sourcerpm() or "",
        "base": package.get_baseurl() or "",  # xml:base: where the repository's files lie, if not in the repository
        "location": package.get_location(),
        "repository": package.get_repo_id(),
        "checksum": checksum.get_type_str(),
        "digest": checksum.get_checksum(),
        "size": package.get_download_size(),
    }


def solve(base, names):
    """The packages of a root that has the names and what they need, or what stands in the way."""
    goal = libdnf5.base.Goal(base)
    settings = libdnf5.base.GoalJobSettings()
    settings.set_with_filenames(False)
    settings.set_with_binaries(False)
    settings.set_group_with_name(False)
    forms = libdnf5.rpm.VectorNevraForm()
    forms.append(libdnf5.rpm.Nevra.Form_NAME)
    forms.append(libdnf5.rpm.Nevra.Form_NA)
    settings.set_nevra_forms(forms)
    for name in names:
        goal.add_rpm_install(name, settings)
    transaction = goal.resolve()
    if transaction.get_problems() != libdnf5.base.GoalProblem_NO_PROBLEM:
        lines = [line.strip(" -") for log in transaction.get_resolve_logs_as_strings() for line in str(log).splitlines()]
        return {"error": "; ".join(line for line in lines if line)}
    return {"packages": [describe(p.get_package()) for p in transaction.get_transaction_packages()]}


def listed(base, names):
    """Every package of some names, of the streams of modules that are enabled."""
    query = libdnf5.rpm.PackageQuery(base)
    query.filter_name(names)
    query.filter_available()
    return [describe(p) for p in query]


def main():
    question = json.load(sys.stdin)
    bare, names = question["base"], question["names"]
    try:
        base = open_base(question)
        if question["list"]:
            json.dump({"listed": listed(base, question["list"])}, sys.stdout)
            return
        answer = {"bare": solve(base, bare), "whole": solve(base, bare + names), "alone": {}}
        if "error" in answer["whole"]:
            for name in names:
                message = solve(base, bare + [name]).get("error")
                if message:
                    answer["alone"][name] = message
    except (RuntimeError, libdnf5.exception.Error) as e:
        answer = {"error": "; ".join(line.strip() for line in str(e).splitlines() if line.strip())}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
