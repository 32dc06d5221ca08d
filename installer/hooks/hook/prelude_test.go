package hook_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/installer/hooks/hook"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/objects"
)

// contract lists what kURL add-ons rely on: the names of kURL §4.2.
var contract = strings.Fields(`spinner_until insert_patches_strategic_merge kubernetes_resource_exists insert_resources bail render_yaml_file
	kubernetes_secret_value kubernetes_scale_down logWarn log kubernetes_is_master render_yaml_file_2 logSuccess confirmN logStep
	deployment_fully_updated insert_patches_json_6902 logFail commandExists try_1m_stderr object_store_exists get_local_node_name
	object_store_create_bucket check_for_running_pods kubeadm_get_server_ca prompt restart_systemd_and_wait
	kubeadm_get_client_kube_apiserver_crt kubeadm_get_client_kube_apiserver_key ensure_host_package host_packages_shipped
	daemonset_fully_updated ekco_pods_gone prometheus_pods_gone try_5m check_network add_rook_store_object_migration_status
	migrate_rgw_to_minio semverParse migrate_object_store load_images yum_install_host_archives install_host_packages
	kubeadm_registry_containerd_configure logSubstep longhorn_prepare_for_migration longhorn_restore_migration_replicas
	longhorn_to_sc_migration build_installer_prefix report_addon_start report_addon_success spinnerPodRunning install_host_archives
	confirmY kubeadm_get_containerd_sock parse_kubernetes_target_version discover_pod_subnet discover_service_subnet is_ubuntu_2404
	kubernetes_kustomize_config_migrate kubernetes_version_minor node_is_using_docker statefulset_fully_updated use_os_containerd
	yum_is_host_package_installed addon_install addon_load insert_bases rook_disable_ekco_operator rook_enable_ekco_operator
	pods_gone_by_selector migrate_minio_to_rgw rook_is_healthy_to_upgrade maybe_cleanup_rook yaml_indent kubernetes_service_healthy try_1m
	add_rook_pvc_migration_status get_yaml_from_multidoc_yaml rook_ceph_to_sc_migration install_nfs_utils_if_missing_common
	rook_is_healthy_to_migrate_from maybe_cleanup_longhorn kubeadm_get_server_ca_key object_store_running prompts_can_prompt semverCompare
	longhorn_host_init_common longhorn_install_iscsi_if_missing_common is_ubuntu_2604 canonical_image_name cert_has_san
	common_upgrade_compare_versions current_ceph_version dpkg_install_host_archives kubernetes_get_control_plane_label
	kubernetes_pod_completed kubernetes_pod_started sleep_spinner splitHostPort yaml_escape_string_quotes yaml_newline_to_literal`)

func TestEveryContractFunctionExists(t *testing.T) {
	if len(contract) != 102 {
		t.Fatalf("%d names", len(contract))
	}
	s, _ := shell(t, `missing() { MISSING=''; local name; for name in $NAMES; do declare -F "$name" >/dev/null || MISSING+=" $name"; done; }`)
	if err := s.Set(t.Context(), "NAMES", strings.Join(contract, " ")); err != nil {
		t.Fatal(err)
	}
	if err := s.Call(t.Context(), "missing"); err != nil {
		t.Fatal(err)
	}
	if missing := variable(t, s, "MISSING"); missing != "" {
		t.Errorf("missing:%s", missing)
	}
}

// TestMissingKubectlIsNotFound: pre-init hooks of kURL's flannel 0.20.0 to 0.25.4 ask any kubectl that they find for the pod network,
// and fail without an answer. A host package may have brought it, or an install that was stopped.
func TestMissingKubectlIsNotFound(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"kubectl", "kubeadm"} {
		if err := fixture.WriteProgram(filepath.Join(folder, name), "#!/bin/sh\nexit 1\n"); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	kubeconfig := filepath.Join(folder, "admin.conf")
	const look = `R=''; for name in kubectl kubeadm missing; do ! commandExists "$name" || R+="$name "; done`
	for _, want := range []string{"kubeadm ", "kubectl kubeadm "} {
		got, err := outcome(t, look, nil, hook.Variables{"KUBECONFIG": kubeconfig})
		if err != nil || got != want {
			t.Errorf("hooks find %q, %v; want %q", got, err, want)
		}
		if err := os.WriteFile(kubeconfig, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// outcome runs a body in a fresh shell and returns its variable R.
func outcome(t *testing.T, body string, verbs map[string]hook.Verb, variables hook.Variables) (string, error) {
	t.Helper()
	dir := t.TempDir()
	s, err := hook.Start(hook.Options{Dir: dir, Env: []string{"PATH=" + os.Getenv("PATH")}, Log: t.Output(), Verbs: verbs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	script := filepath.Join(dir, "install.sh")
	if err := os.WriteFile(script, []byte("run() {\n"+body+"\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	variables.Add(hook.Variables{"DIR": dir})
	if err := s.Restore(t.Context(), variables); err != nil {
		t.Fatal(err)
	}
	if err := s.Source(t.Context(), script); err != nil {
		t.Fatal(err)
	}
	if err := s.Call(t.Context(), "run"); err != nil {
		return "", err
	}
	return variable(t, s, "R"), nil
}

func TestPreludeHonorsKurlContracts(t *testing.T) {
	for name, row := range map[string]struct{ body, want string }{
		"a message is not a format":                  {`R=$(logStep "100% %s done" 2>&1)`, "⚙  100% %s done"},
		"bail ends the hook with its message":        {`R=$( (bail "no disk") 2>&1 ) || R+="/$?"`, "failed: no disk/1"},
		"nobody is asked: no":                        {`if confirmN; then R=yes; else R=$PROMPT_RESULT; fi`, "n"},
		"nobody is asked: yes to all":                {`ASSUME_YES=1; if confirmN; then R=yes; fi`, "yes"},
		"nobody is asked: yes by default":            {`if confirmY; then R=yes; fi`, "yes"},
		"a prompt has the answer of a test":          {`TEST_PROMPT_RESULT=x; prompt; R=$PROMPT_RESULT`, "x"},
		"a prompt that nobody can answer":            {`R=$( (prompt) 2>&1 ) || true`, "failed: the add-on asks a question, and nobody can answer: give it the option in the Installer"},
		"waiting for a command in one word":          {`x() { [ "$1/$2" = a/b ]; }; spinner_until 0 "x a b" && R=ok`, "ok"},
		"waiting keeps blanks of arguments":          {`x() { [ "$1" = "a b" ]; }; spinner_until 0 x "a b" && R=ok`, "ok"},
		"waiting takes longer on a slow host":        {`SEALIFT_PATIENCE=3; N=0; x() { N=$((N + 1)); [ $N = 3 ]; }; spinner_until 1 x && R=$N`, "3"},
		"trying takes longer on a slow host":         {`SEALIFT_PATIENCE=3; N=0; x() { N=$((N + 1)); [ $N = 3 ]; }; sealift_try 1 0 quiet x && R=$N`, "3"},
		"waiting without a limit":                    {`N=0; x() { N=$((N + 1)); [ $N = 2 ]; }; spinner_until '' x; R=$N`, "2"},
		"waiting goes on when a clock jumps":         {`N=0; x() { N=$((N + 1)); SECONDS=100000; [ $N = 2 ]; }; spinner_until 60 x && R=$N`, "2"},
		"tries that succeed later":                   {`N=0; x() { N=$((N + 1)); [ $N = 3 ]; }; sealift_try 5 0 '' x; R=$N`, "3"},
		"tries that never succeed":                   {`R=$( (sealift_try 2 0 quiet false a) 2>&1 ) || true`, "failed: 'false a' did not succeed"},
		"the last of quiet tries complains":          {`x() { echo why >&2; return 1; }; R=$( (sealift_try 3 0 quiet x) 2>&1 ) || true`, "why\nfailed: 'x' did not succeed"},
		"a version's numbers":                        {`semverParse v1.22.3-rc.1; R=$major/$minor/$patch`, "1/22/3"},
		"a version's numbers, where some are absent": {`semverParse 1.22; R=$major/$minor/$patch`, "1/22/0"},
		"comparing versions by number":               {`semverCompare 1.10.0 1.9.9; R=$SEMVER_COMPARE_RESULT; semverCompare 1.2.3 1.2.3; R+=/$SEMVER_COMPARE_RESULT; semverCompare 1.2.2 1.2.3; R+=/$SEMVER_COMPARE_RESULT`, "1/0/-1"},
		"comparing major and minor alone":            {`R=$(common_upgrade_compare_versions 1.2.9 1.2.1)`, "0"},
		"what is not a version":                      {`semverCompare '$(x)' 1 2>/dev/null || R=refused`, "refused"},
		"the minor version alone":                    {`major=7; R=$(kubernetes_version_minor v1.36.3); R+=/$major`, "36/7"},
		"the target version":                         {`KUBERNETES_VERSION=1.36.3; parse_kubernetes_target_version; R=$KUBERNETES_TARGET_VERSION_MAJOR.$KUBERNETES_TARGET_VERSION_MINOR.$KUBERNETES_TARGET_VERSION_PATCH`, "1.36.3"},
		"a host and its port":                        {`splitHostPort lb.example.org:6443; R=$HOST/$PORT`, "lb.example.org/6443"},
		"an IPv6 address and its port":               {`splitHostPort '[fd00::1]:6443'; R=$HOST/$PORT`, "[fd00::1]/6443"},
		"an IPv6 address alone":                      {`splitHostPort fd00::1; R=$HOST/$PORT`, "fd00::1/"},
		"a host alone":                               {`splitHostPort lb; R=$HOST/$PORT`, "lb/"},
		"an image in full":                           {`R=$(canonical_image_name nginx)`, "docker.io/library/nginx:latest"},
		"an image that is full":                      {`R=$(canonical_image_name quay.io/a/b:1)`, "quay.io/a/b:1"},
		"indenting lines":                            {`R=$(printf 'a\n  b' | yaml_indent '  ')`, "  a\n    b"},
		"indenting by a text of sed's":               {`R=$(echo x | yaml_indent '/&')`, "/&x"},
		"escaping quotes":                            {`R=$(echo 'say "x"' | yaml_escape_string_quotes)`, `say \"x\"`},
		"one line of several":                        {`R=$(printf 'a\nb\nc\n' | yaml_newline_to_literal)`, `a\nb\nc`},
		"how scripts are fetched, airgapped":         {`R=$(build_installer_prefix id v "" "" ""; printf .)`, "cat ."},
		"how scripts are fetched":                    {`R=$(build_installer_prefix id v1 https://x p "")`, "curl -fsSL -x p https://x/version/v1/id/"},
		"a document of several":                      {`printf 'metadata: {name: a}\n---\n# of b\nmetadata:\n  name: b\ntext: |\n  ---x\n---\nmetadata: {name: c}\n' >f; R=$(get_yaml_from_multidoc_yaml f b)`, "# of b\nmetadata:\n  name: b\ntext: |\n  ---x"},
		"a document that is not there":               {`echo 'a: 1' >f; get_yaml_from_multidoc_yaml f b 2>/dev/null || R=refused`, "refused"},
		"an object store":                            {`object_store_exists || R=none; OBJECT_STORE_ACCESS_KEY=a OBJECT_STORE_SECRET_KEY=b OBJECT_STORE_CLUSTER_IP=c; object_store_exists && R+=/one`, "none/one"},
		"a program and a function exist":             {`f() { :; }; commandExists f && commandExists ls && ! commandExists nowhere-at-all && R=ok`, "ok"},
		"storage is not migrated":                    {`longhorn_to_sc_migration default 2>err || R=$(cat err)`, "failed: Sealift does not move data between storage systems: volumes of Longhorn to default. Move it with the tools of the storage, or keep the storage in the Installer"},
		"one version of Ceph":                        {`kubectl() { printf '15.2.8-0\n0.0.0-0\n\n15.2.8-0\n'; }; R=$(sealift_rook_versions ceph-version)`, "1"},
		"two versions of Ceph":                       {`kubectl() { printf '15.2.8-0\n14.2.5-0\n'; }; R=$(sealift_rook_versions ceph-version)`, "2"},
		"a hook that asks for nothing known":         {`sealift_ask nonsense 2>err || R=$(cat err)`, "sealift: hooks cannot ask for nonsense"},
		"asking from a pipe in the background":       {`{ canonical_image_name a >a & canonical_image_name b >b & wait; }; R=$(cat a b)`, "docker.io/library/a:latest\ndocker.io/library/b:latest"},
		"sockets and keys of kubeadm":                {`R=$("${K8S_DISTRO:-kubeadm}_get_containerd_sock")`, "/run/containerd/containerd.sock"},
		"options of the shell are as they were":      {`set +e; IFS=,; set -u; shopt -s nullglob; cd /tmp; R=changed`, "changed"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := outcome(t, row.body, nil, hook.Variables{})
			if err != nil || got != row.want {
				t.Errorf("got %q, %v; want %q", got, err, row.want)
			}
		})
	}
}

func TestStepWaitsOnlyForItsAddOn(t *testing.T) {
	// a has b applied before itself
	const addOns = `mkdir -p addons/a/1 addons/b/1
	echo 'a() { addon_install b 1; sealift_apply a of-a; }' >addons/a/1/install.sh; echo 'b() { sealift_apply b "$DIR/of-b"; }' >addons/b/1/install.sh; `
	for call, want := range map[string][]string{
		"sealift_install a 1":                          {"b of-b 5m", "a of-a 5m"},
		"sealift_install a 1 later; sealift_apply a x": {"b of-b 5m", "a of-a 0s", "a x 5m"},
	} {
		var applied []string
		apply := func(_ context.Context, args []string, _ io.Writer) error {
			if !filepath.IsAbs(args[1]) {
				t.Errorf("%s is told relative to a folder of the shell", args[1])
			}
			applied = append(applied, strings.Join([]string{args[0], filepath.Base(args[1]), args[2]}, " "))
			return nil
		}
		if _, err := outcome(t, addOns+call, map[string]hook.Verb{"apply": apply}, hook.Variables{}); err != nil || !slices.Equal(applied, want) {
			t.Errorf("%s: got %q, %v; want %q", call, applied, err, want)
		}
	}
}

func TestShellIsResetBeforeEachHook(t *testing.T) {
	s, _ := shell(t, `upset() { set +e; set -u; IFS=,; cd /tmp; shopt -s nullglob; trap - EXIT ERR; }
look() { R="$-/$PWD/${#IFS}"; shopt -q nullglob && R=nullglob; return 0; }
broken() { false; }`)
	if err := s.Call(t.Context(), "look"); err != nil {
		t.Fatal(err)
	}
	before := variable(t, s, "R")
	for _, f := range []string{"upset", "look"} {
		if err := s.Call(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	if got := variable(t, s, "R"); got != before {
		t.Errorf("after another hook: %q, before: %q", got, before)
	}
	var failed *hook.Error
	if err := s.Call(t.Context(), "broken"); !errors.As(err, &failed) || !strings.HasSuffix(failed.Place, "install.sh:3: false") {
		t.Errorf("got %v", err)
	}
}

func TestKustomizationsAreEdited(t *testing.T) {
	for name, row := range map[string]struct{ before, body, want string }{
		"an empty file":                            {"", "insert_resources k a.yaml", "resources:\n- a.yaml\n"},
		"later calls come first":                   {"", "insert_resources k a.yaml; insert_resources k b.yaml", "resources:\n- b.yaml\n- a.yaml\n"},
		"comments stay":                            {"# mine\nresources: # these\n- a.yaml # one\n", "insert_resources k b.yaml", "# mine\nresources: # these\n- b.yaml\n- a.yaml # one\n"},
		"a list in brackets":                       {"resources: [a.yaml]\n", "insert_resources k b.yaml", "resources:\n- b.yaml\n- a.yaml\n"},
		"a key without a value":                    {"resources:\nnamespace: x\n", "insert_resources k b.yaml", "resources:\n- b.yaml\nnamespace: x\n"},
		"a key elsewhere":                          {"x:\n  resources:\n  - not me\n", "insert_resources k b.yaml", "x:\n  resources:\n  - not me\nresources:\n- b.yaml\n"},
		"a name that YAML would not take for text": {"", `insert_resources k "a: b"`, "resources:\n- 'a: b'\n"},
		"a base is a resource":                     {"", "insert_bases k ../x", "resources:\n- ../x\n"},
		"a strategic merge":                        {"", "insert_patches_strategic_merge k p.yaml", "patchesStrategicMerge:\n- p.yaml\n"},
		"a JSON patch": {"", "insert_patches_json_6902 k p.yaml apps v1 Deployment d ns",
			"patchesJson6902:\n- target:\n    group: apps\n    version: v1\n    kind: Deployment\n    name: d\n    namespace: ns\n  path: p.yaml\n"},
		"a migrated configuration": {"bases:\n- ../b\npatchesStrategicMerge:\n- p.yaml\npatchesJson6902:\n- target: {version: v1, kind: Secret, name: s}\n  path: j.yaml\n",
			"mkdir d; mv k d/kustomization.yaml; kubernetes_kustomize_config_migrate d; mv d/kustomization.yaml k",
			"apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\npatches:\n- path: j.yaml\n  target:\n    kind: Secret\n    name: s\n    version: v1\n- path: p.yaml\nresources:\n- ../b\n"},
		"what is not a mapping": {"- a\n", "insert_resources k a.yaml 2>/dev/null || echo refused >k", "refused\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := outcome(t, "printf '%s' \"$BEFORE\" >k; "+row.body+"; R=$(cat k; printf .)", nil, hook.Variables{"BEFORE": row.before})
			if err != nil || got != row.want+"." {
				t.Errorf("got\n%s\n%v; want\n%s", got, err, row.want)
			}
		})
	}
}

func TestHookTemplatesAreExpanded(t *testing.T) {
	hostile := "a \"b\" $(touch owned) `touch owned` ${C} \\ 'd'\ne"
	for name, row := range map[string]struct{ template, document, quoted string }{
		"variables":                 {"$V-${V}-$UNSET.", "<V>-<V>-.", "<V>-<V>-."},
		"a local variable":          {"${local}", "here", "here"},
		"defaults":                  {"${UNSET:-x} ${UNSET-y} ${ONE:-x} ${ONE:+z}${UNSET:+z}", "x y 1 z", "x y 1 z"},
		"quotes in a default":       {`k: ${UNSET:-'""'} ${ONE:-"x"} ${UNSET:-"a  b"}`, `k: '' 1 a  b`, `k: '' 1 a  b`},
		"double quotes":             {`k: "v"`, `k: "v"`, `k: v`},
		"quotes that have to stay":  {`k: '"false"'`, `k: '"false"'`, `k: 'false'`},
		"escaped quotes":            {`k: \"v\"`, `k: \"v\"`, `k: "v"`},
		"blanks between quotes":     {"a  b: \"c   d\"  e", "a  b: \"c   d\"  e", "a  b: c d  e"},
		"dollars that stay":         {`\$V $ $5 $$ ${} ${a b}`, `$V $ $5 $$ ${} ${a b}`, `$V $ $5 $$ ${} ${a b}`},
		"commands are text":         {"$(touch owned) `touch owned` $(date; touch owned)", "$(touch owned) `touch owned` $(date; touch owned)", "$(touch owned) `touch owned` $(date; touch owned)"},
		"the clock is not set":      {"$(date -s 2000-01-01)", "$(date -s 2000-01-01)", "$(date -s 2000-01-01)"},
		"the time":                  {"x$(date -u +%%)x", "x%x", "x%x"},
		"syntax of Kubernetes":      {"- $(BDC_BD_BIND_RETRIES)", "- $(BDC_BD_BIND_RETRIES)", "- $(BDC_BD_BIND_RETRIES)"},
		"backslashes":               {`a\\b \n \` + "\nc", `a\b \n ` + "c", `a\b \n ` + "c"},
		"names of the shell's own":  {"${sealift_name}${REPLY}", "", ""},
		"no end of line at the end": {"x", "x", "x"},
		"empty lines at the end":    {"x\n\n\n", "x\n\n\n", "x\n\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			body := `local local=here ONE=1; printf '%s' "$TEMPLATE" >t; cd / && R=$(render_yaml_file_2 "$DIR/t"; printf '|'; cd "$DIR"; render_yaml_file t; printf '|'); cd "$DIR"; ! [ -e owned ]`
			got, err := outcome(t, body, nil, hook.Variables{"TEMPLATE": row.template, "V": hostile})
			want := strings.ReplaceAll(row.document+"|"+row.quoted+"|", "<V>", hostile)
			if err != nil || got != want {
				t.Errorf("got\n%q, %v; want\n%q", got, err, want)
			}
		})
	}
	if got, err := outcome(t, "render_yaml_file nowhere || R=none; mkdir yaml; echo '$V' >yaml/f; R+=$(render_yaml f)", nil, hook.Variables{"V": "1"}); err != nil || got != "none1" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestHostPackagesAreInstalledFromBundle(t *testing.T) {
	for name, row := range map[string]struct{ os, files, body, want string }{
		"an add-on of Sealift's":      {"debian 12", "", "install_host_archives a lvm2", ""},
		"archives of kURL for Ubuntu": {"ubuntu 22.04", "a/ubuntu-22.04/archives/x.deb", "install_host_archives a lvm2", "host-package-files a/ubuntu-22.04/archives lvm2"},
		"files of kURL for Ubuntu":    {"ubuntu 22.04", "a/ubuntu-22.04/x.deb", "install_host_packages a kubelet", "host-package-files a/ubuntu-22.04 kubelet"},
		"Red Hat's for its kin":       {"rocky 9.4", "a/rhel-9/archives/x.rpm", "yum_install_host_archives a fio", "host-package-files a/rhel-9/archives fio"},
		"Oracle's own come first":     {"ol 8.10", "a/ol-8/x.rpm a/rhel-8/x.rpm", "install_host_packages a fio", "host-package-files a/ol-8 fio"},
		"release 10 takes those of 9": {"rocky 10.2", "a/rhel-9/x.rpm", "install_host_packages a containerd.io", "host-package-files a/rhel-9 containerd.io"},
		"release 10 has its own":      {"almalinux 10.0", "a/rhel-10/x.rpm a/rhel-9/x.rpm", "install_host_packages a fio", "host-package-files a/rhel-10 fio"},
		"release 10 of Oracle":        {"ol 10.0", "a/rhel-9/archives/x.rpm", "install_host_archives a fio", "host-package-files a/rhel-9/archives fio"},
		"release 9 takes none of 8":   {"rocky 9.4", "a/rhel-8/x.rpm", "install_host_packages a fio", ""},
		"another system's":            {"ubuntu 22.04", "a/rhel-9/archives/x.rpm", "install_host_archives a fio", ""},
		"the Installer says not to":   {"ubuntu 22.04", "a/ubuntu-22.04/archives/x.deb", "SKIP_SYSTEM_PACKAGE_INSTALL=1 install_host_archives a fio", ""},
		"only names, one missing":     {"ubuntu 24.04", "a/ubuntu-24.04/Deps", "printf 'bash\nno-such-package' >a/ubuntu-24.04/Deps; install_host_archives a fio", "host-packages no-such-package"},
		"a package that is there":     {"debian 12", "", "ensure_host_package skip bash", ""},
		"a package to skip":           {"debian 12", "", "ensure_host_package no-such-package skip", ""},
		"a package that is missing":   {"debian 12", "", "ensure_host_package skip no-such-package", "host-packages no-such-package"},
		"images of an add-on":         {"debian 12", "addons/x/1/images/a", "load_images $DIR/addons/x/1/images; addon_load x 1", "load-images addons/x/1/images load-images addons/x/1/images"},
		"images that the hook wrote":  {"debian 12", "more/a.tar", "load_images $DIR/more; load_images $DIR/none", "load-images more"},
		"rpm on a host of dpkg's":     {"debian 12", "", "dpkg-query() { [ \"$*\" = '--show dpkg' ] || echo installed; }; rpm() { false; }; ensure_host_package missing there", ""},
		"dpkg on a host of rpm's": {"rocky 9.4", "", "apt-get() { :; }; dpkg-query() { false; }; rpm() { [ \"$*\" = '--query --whatprovides there' ]; }; " +
			"ensure_host_package there skip; ensure_host_package missing skip", "host-packages missing"},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			verbs := map[string]hook.Verb{}
			for _, verb := range []string{"host-packages", "host-package-files", "load-images"} {
				verbs[verb] = func(_ context.Context, args []string, _ io.Writer) error {
					asked = append(append(asked, verb), args...)
					return nil
				}
			}
			distribution, version, _ := strings.Cut(row.os, " ")
			major, _, _ := strings.Cut(version, ".")
			variables := hook.Variables{"LSB_DIST": distribution, "DIST_VERSION": version, "DIST_VERSION_MAJOR": major, "FILES": row.files}
			body := `for f in $FILES; do mkdir -p "${f%/*}"; touch "$f"; done; host_packages_shipped; ` + row.body + `; R=$DIR`
			dir, err := outcome(t, body, verbs, variables)
			if got := strings.ReplaceAll(strings.Join(asked, " "), dir+"/", ""); err != nil || got != row.want {
				t.Errorf("asked %q, %v; want %q", got, err, row.want)
			}
		})
	}
}

func TestHookHandlesRefusal(t *testing.T) {
	verbs := map[string]hook.Verb{"host-packages": func(context.Context, []string, io.Writer) error { return errors.New("no repository") }}
	_, err := outcome(t, "ensure_host_package no-such-package no-such-package", verbs, hook.Variables{})
	var failed *hook.Error
	if !errors.As(err, &failed) || !strings.Contains(failed.Output, "no repository\nfailed: the host package no-such-package is missing") {
		t.Errorf("got %v", err)
	}
}

func TestBucketsAreMadeOnce(t *testing.T) {
	server := objects.Start(t)
	got, err := outcome(t, "object_store_create_bucket one; object_store_create_bucket one; R=ok", nil, hook.Variables{
		"OBJECT_STORE_CLUSTER_IP": strings.TrimPrefix(server.Endpoint, "http://"),
		"OBJECT_STORE_ACCESS_KEY": os.Getenv("AWS_ACCESS_KEY_ID"), "OBJECT_STORE_SECRET_KEY": os.Getenv("AWS_SECRET_ACCESS_KEY")})
	if err != nil || got != "ok" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(server.Dir), "one")); err != nil {
		t.Error(err)
	}
}

func TestNamesOfCertificates(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	body := fmt.Sprintf(`for n in example.com 127.0.0.1 other.org; do if cert_has_san %s $n; then R+=y; else R+=n; fi; done; cert_has_san 127.0.0.1:1 x || R+=n`, server.Listener.Addr())
	if got, err := outcome(t, body, nil, hook.Variables{}); err != nil || got != "yynn" {
		t.Errorf("%q, %v", got, err)
	}
}
