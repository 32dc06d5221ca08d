package spec

import (
	"slices"
	"strings"
)

// fieldType is the type of a field's value.
type fieldType string

const (
	text     fieldType = "a string"
	boolean  fieldType = "true or false"
	integer  fieldType = "a whole number"
	list     fieldType = "a list of strings"
	commands fieldType = "a list of commands, each a list of words"
	cidrSize fieldType = "a prefix length such as /20" // kURL accepts it with or without the slash
	anything fieldType = "any value"
	login    fieldType = "who logs people in: see OIDC"
	level    fieldType = "strict" // the only level there is
)

// field is one key that kURL's v1beta1 lists for a section.
type field struct {
	key      string
	is       fieldType
	variable string // "" follows the rule of VariableName; unexported keeps it out of the variables
	initial  string // value of the variable when the document does not set the field
	on       string // value of the variable when the field is true; "" is "1"
	off      string // value of the variable when the field is false
	own      bool   // of Sealift's add-on: kURL's of the same name does not read it
}

// unexported marks fields that programs read and hooks do not.
const unexported = "-"

// section is one key of the spec with the fields that kURL's v1beta1 lists for it.
type section struct {
	key         string
	versionless bool // has no version: not an add-on
	override    bool // has s3Override, the URL of a package to use instead of the store's
	fields      []field
}

// sections is the table of kURL §2.1. A field names its variable where kURL's name differs from the rule. Two mistakes of
// kURL are not repeated: there, velero.namespace overwrites VELERO_LOCAL_BUCKET (here it has no effect: Velero is in the
// namespace velero, as in kURL), and weave.isEncryptionDisabled sets "1", although the add-on compares it with "0".
func sections() []section {
	return slices.Concat(distributionSections(), networkSections(), storageSections(), serviceSections(), hostSections())
}

// versionOnly is an add-on without options.
func versionOnly(key string) section { return section{key: key, override: true} }

func distributionSections() []section {
	return []section{
		kubernetesSection(),
		{key: "rke2"},
		{key: "k3s"},
		{key: "docker", fields: []field{
			{key: "s3Override", is: text, variable: "DOCKER_S3_OVERRRIDE"},
			{key: "bypassStorageDriverWarning", is: boolean, variable: "BYPASS_STORAGEDRIVER_WARNINGS"},
			{key: "daemonConfig", is: text, variable: unexported},
			{key: "dockerRegistryIP", is: text, variable: "DOCKER_REGISTRY_IP"},
			{key: "hardFailOnLoopback", is: boolean, variable: "HARD_FAIL_ON_LOOPBACK", initial: "1"},
			{key: "noCEOnEE", is: boolean, variable: "NO_CE_ON_EE"},
			{key: "preserveConfig", is: boolean, variable: "PRESERVE_DOCKER_CONFIG"},
		}},
		{key: "containerd", override: true, fields: []field{
			{key: "tomlConfig", is: text},
			{key: "preserveConfig", is: boolean},
			{key: "mirror", is: boolean, variable: unexported}, // Sealift's own
		}},
		ekcoSection(),
	}
}

func networkSections() []section {
	return []section{
		{key: "weave", override: true, fields: []field{
			{key: "isEncryptionDisabled", is: boolean, variable: "ENCRYPT_NETWORK", on: "0"},
			{key: "podCIDR", is: text, variable: "POD_CIDR"},
			{key: "podCidrRange", is: cidrSize, variable: "POD_CIDR_RANGE"},
			{key: "noMasqLocal", is: boolean, variable: "NO_MASQ_LOCAL", initial: "1", off: "0"},
		}},
		{key: "flannel", override: true, fields: []field{
			{key: "podCIDR", is: text},
			{key: "podCIDRRange", is: cidrSize},
		}},
		{key: "antrea", override: true, fields: []field{
			{key: "isEncryptionDisabled", is: boolean, variable: "ANTREA_DISABLE_ENCRYPTION"},
			{key: "podCIDR", is: text},
			{key: "podCidrRange", is: cidrSize},
		}},
		versionOnly("calico"),
		{key: "contour", override: true, fields: []field{
			{key: "tlsMinimumProtocolVersion", is: text},
			{key: "httpPort", is: integer},
			{key: "httpsPort", is: integer},
		}},
	}
}

func storageSections() []section {
	return []section{
		{key: "rook", override: true, fields: []field{
			{key: "blockDeviceFilter", is: text},
			{key: "nodes", is: text},
			{key: "bypassUpgradeWarning", is: boolean},
			{key: "cephReplicaCount", is: integer, variable: "CEPH_POOL_REPLICAS"},
			{key: "isBlockStorageEnabled", is: boolean, variable: "ROOK_BLOCK_STORAGE_ENABLED"},
			{key: "isSharedFilesystemDisabled", is: boolean, variable: "ROOK_SHARED_FILESYSTEM_DISABLED"},
			{key: "storageClassName", is: text, variable: "STORAGE_CLASS"},
			{key: "hostpathRequiresPrivileged", is: boolean},
			{key: "minimumNodeCount", is: integer},
		}},
		{key: "longhorn", override: true, fields: []field{
			{key: "storageOverProvisioningPercentage", is: integer},
			{key: "uiBindPort", is: integer},
			{key: "uiReplicaCount", is: integer},
		}},
		{key: "openebs", override: true, fields: []field{
			{key: "namespace", is: text},
			{key: "isLocalPVEnabled", is: boolean, variable: "OPENEBS_LOCALPV"},
			{key: "localPVStorageClassName", is: text, variable: "OPENEBS_LOCALPV_STORAGE_CLASS"},
			{key: "isCstorEnabled", is: boolean, variable: "OPENEBS_CSTOR"},
			{key: "cstorStorageClassName", is: text, variable: "OPENEBS_CSTOR_STORAGE_CLASS"},
		}},
		{key: "minio", override: true, fields: []field{
			{key: "namespace", is: text},
			{key: "claimSize", is: text},
			{key: "hostPath", is: text, variable: "MINIO_HOSTPATH"},
		}},
		{key: "aws", override: true, fields: []field{{key: "excludeStorageClass", is: boolean}}},
	}
}

func serviceSections() []section {
	return []section{
		versionOnly("collectd"), versionOnly("certManager"), versionOnly("metricsServer"), versionOnly("sonobuoy"), versionOnly("goldpinger"),
		{key: "registry", override: true, fields: []field{
			{key: "publishPort", is: integer},
			{key: "serviceIP", is: text, variable: "KURL_REGISTRY_IP"}, // in kURL it is only a flag
			{key: "storage", is: text, own: true},
			{key: "claimSize", is: text, own: true},
			{key: "storageClassName", is: text, own: true},
			{key: "pullNamespaces", is: list, own: true},
		}},
		{key: "prometheus", override: true, fields: []field{
			{key: "serviceType", is: text},
			{key: "retention", is: text, own: true},
			{key: "storageSize", is: text, own: true},
			{key: "storageClassName", is: text, own: true},
			{key: "externalURL", is: text, own: true},
			{key: "metricsFolder", is: text, own: true},
			{key: "receivers", is: list, own: true},
			{key: "receiversFrom", is: text, own: true},
			{key: "smtpServer", is: text, own: true},
			{key: "smtpFrom", is: text, own: true},
			{key: "smtpUser", is: text, own: true},
		}},
		{key: "fluentd", override: true, fields: []field{
			{key: "fullEFKStack", is: boolean},
			{key: "fluentdConfPath", is: text, variable: "FLUENTD_CONF_FILE"},
		}},
		{key: "kotsadm", override: true, fields: []field{
			{key: "applicationNamespace", is: text, variable: "KOTSADM_APPLICATION_NAMESPACES"},
			{key: "applicationSlug", is: text},
			{key: "applicationVersionLabel", is: text},
			{key: "hostname", is: text},
			{key: "disableS3", is: boolean},
			{key: "uiBindPort", is: integer},
		}},
		{key: "velero", override: true, fields: []field{
			{key: "namespace", is: text, variable: unexported},
			{key: "disableCLI", is: boolean},
			{key: "disableRestic", is: boolean},
			{key: "localBucket", is: text},
			{key: "resticRequiresPrivileged", is: boolean},
			{key: "resticTimeout", is: text},
			{key: "serverFlags", is: list},
			{key: "bucketFrom", is: text, own: true},
			{key: "volumes", is: boolean, own: true},
			{key: "schedule", is: text, own: true},
			{key: "keep", is: text, own: true},
		}},
	}
}

func kubernetesSection() section {
	return section{key: "kubernetes", fields: []field{
		{key: "s3Override", is: text, variable: "SERVICE_S3_OVERRIDE"},
		{key: "serviceCIDR", is: text, variable: "SERVICE_CIDR"},
		{key: "serviceCidrRange", is: cidrSize, variable: "SERVICE_CIDR_RANGE"},
		{key: "HACluster", is: boolean, variable: "HA_CLUSTER"},
		{key: "masterAddress", is: text, variable: "KUBERNETES_MASTER_ADDR"},
		{key: "loadBalancerAddress", is: text, variable: "LOAD_BALANCER_ADDRESS"},
		{key: "loadBalancerUseFirstPrimary", is: boolean},
		{key: "bootstrapToken", is: text, variable: "BOOTSTRAP_TOKEN"},
		{key: "bootstrapTokenTTL", is: text, variable: "BOOTSTRAP_TOKEN_TTL"},
		{key: "certKey", is: text, variable: "CERT_KEY"},
		{key: "controlPlane", is: boolean, variable: "MASTER"},
		{key: "kubeadmToken", is: text, variable: "KUBEADM_TOKEN"},
		{key: "kubeadmTokenCAHash", is: text, variable: "KUBEADM_TOKEN_CA_HASH"},
		{key: "containerLogMaxSize", is: text, variable: "CONTAINER_LOG_MAX_SIZE"},
		{key: "containerLogMaxFiles", is: integer, variable: "CONTAINER_LOG_MAX_FILES"},
		{key: "maxPodsPerNode", is: integer},
		{key: "useStandardNodePortRange", is: boolean, variable: "USE_STANDARD_PORT_RANGE"},
		{key: "kubeReserved", is: boolean, variable: "KUBE_RESERVED"},
		{key: "evictionThresholdResources", is: text, variable: "EVICTION_THRESHOLD"},
		{key: "systemReservedResources", is: text, variable: "SYSTEM_RESERVED"},
		{key: "cisCompliance", is: boolean},
		{key: "encryptSecrets", is: boolean, off: "0"}, // Sealift's own, as is the next; off wins over hardening
		{key: "hardening", is: level},
		{key: "oidc", is: login, variable: unexported}, // Sealift's own
		{key: "clusterName", is: text, initial: "kubernetes"},
		{key: "initIgnorePreflightErrors", is: text},
		{key: "upgradeIgnorePreflightErrors", is: text},
	}}
}

func ekcoSection() section {
	return section{key: "ekco", override: true, fields: []field{
		{key: "minReadyMasterNodeCount", is: integer},
		{key: "minReadyWorkerNodeCount", is: integer},
		{key: "nodeUnreachableToleration", is: text, variable: "EKCO_NODE_UNREACHABLE_TOLERATION_DURATION"},
		{key: "rookShouldUseAllNodes", is: boolean},
		{key: "rookShouldDisableReconcileMDSPlacement", is: boolean},
		{key: "rookShouldDisableReconcileCephCSIResources", is: boolean},
		{key: "shouldDisableRebootServices", is: boolean, variable: "EKCO_SHOULD_DISABLE_REBOOT_SERVICE"},
		{key: "shouldDisableClearNodes", is: boolean},
		{key: "shouldEnablePurgeNodes", is: boolean},
		{key: "enableInternalLoadBalancer", is: boolean},
		{key: "podImageOverrides", is: list},
		{key: "shouldDisableRestartFailedEnvoyPods", is: boolean},
		{key: "envoyPodsNotReadyDuration", is: text},
		{key: "minioShouldDisableManagement", is: boolean},
		{key: "kotsadmShouldDisableManagement", is: boolean},
		{key: "autoUpgradeSchedule", is: text},
	}}
}

func hostSections() []section {
	return []section{
		{key: "helm", versionless: true, fields: []field{
			{key: "helmfileSpec", is: text},
			{key: "additionalImages", is: list},
		}},
		{key: "kurl", versionless: true, fields: []field{
			{key: "airgap", is: boolean, variable: "AIRGAP"},
			{key: "installerVersion", is: text, variable: unexported},
			{key: "additionalNoProxyAddresses", is: list, variable: "ADDITIONAL_NO_PROXY_ADDRESSES"},
			{key: "hostnameCheck", is: text, variable: "HOSTNAME_CHECK"},
			{key: "ignoreRemoteLoadImagesPrompt", is: boolean},
			{key: "ignoreRemoteUpgradePrompt", is: boolean},
			{key: "licenseURL", is: text, variable: "LICENSE_URL"},
			{key: "nameserver", is: text, variable: "NAMESERVER"},
			{key: "noProxy", is: boolean, variable: "NO_PROXY"},
			{key: "proxyAddress", is: text, variable: "PROXY_ADDRESS"},
			{key: "publicAddress", is: text, variable: "PUBLIC_ADDRESS"},
			{key: "privateAddress", is: text, variable: "PRIVATE_ADDRESS"},
			{key: "hostPreflights", is: anything, variable: unexported},
			{key: "hostPreflightIgnore", is: boolean, variable: "HOST_PREFLIGHT_IGNORE"},
			{key: "hostPreflightEnforceWarnings", is: boolean, variable: "HOST_PREFLIGHT_ENFORCE_WARNINGS"},
			{key: "skipSystemPackageInstall", is: boolean, variable: "SKIP_SYSTEM_PACKAGE_INSTALL"},
			{key: "excludeBuiltinHostPreflights", is: boolean, variable: "EXCLUDE_BUILTIN_HOST_PREFLIGHTS"},
			{key: "ipv6", is: boolean, variable: "IPV6_ONLY"},
			{key: "dualStack", is: boolean, variable: unexported},   // Sealift's own
			{key: "caCertificates", is: text, variable: unexported}, // Sealift's own
			{key: "nodeLabels", is: list, variable: unexported},     // Sealift's own; in kURL it is only a flag
		}},
		{key: "snapshots", versionless: true, fields: []field{ // Sealift's own
			{key: "every", is: text, variable: unexported},
			{key: "keep", is: integer, variable: unexported},
			{key: "store", is: text, variable: unexported},
			{key: "key", is: text, variable: unexported},
			{key: "volumes", is: boolean, variable: unexported},
		}},
		{key: "metrics", versionless: true, fields: []field{ // Sealift's own
			{key: "folder", is: text, variable: unexported},
			{key: "disabled", is: boolean, variable: unexported},
		}},
		{key: "selinuxConfig", versionless: true, fields: []field{
			{key: "chconCmds", is: commands, variable: unexported},
			{key: "disableSelinux", is: boolean, variable: "DISABLE_SELINUX"},
			{key: "preserveConfig", is: boolean, variable: "PRESERVE_SELINUX_CONFIG"},
			{key: "selinux", is: text, variable: unexported},
			{key: "semanageCmds", is: commands, variable: unexported},
			{key: "type", is: text, variable: unexported},
		}},
		{key: "iptablesConfig", versionless: true, fields: []field{
			{key: "iptablesCmds", is: commands, variable: unexported},
			{key: "preserveConfig", is: boolean, variable: "PRESERVE_IPTABLES_CONFIG"},
		}},
		{key: "firewalldConfig", versionless: true, fields: []field{
			{key: "bypassFirewalldWarning", is: boolean, variable: "BYPASS_FIREWALLD_WARNING"},
			{key: "disableFirewalld", is: boolean, variable: "DISABLE_FIREWALLD"},
			{key: "firewalld", is: text, variable: unexported},
			{key: "firewalldCmds", is: commands, variable: unexported},
			{key: "hardFailOnFirewalld", is: boolean, variable: "HARD_FAIL_ON_FIREWALLD"},
			{key: "preserveConfig", is: boolean, variable: "PRESERVE_FIREWALLD_CONFIG"},
		}},
		{key: "ufwConfig", versionless: true, fields: []field{
			{key: "bypassUFWWarning", is: boolean, variable: "BYPASS_UFW_WARNING"},
			{key: "disableUFW", is: boolean, variable: "DISABLE_UFW"},
			{key: "hardFailOnUFW", is: boolean, variable: "HARD_FAIL_ON_UFW"},
		}},
	}
}

// known returns the section that the table lists under key. Two spellings are accepted: the folder name (cert-manager for
// certManager) and ufw for ufwConfig, because kURL's API schema says ufw and its Go types say ufwConfig.
func known(key string) (section, bool) {
	name := AddOnName(key)
	if name == "ufw" {
		name = "ufw-config"
	}
	for _, s := range sections() {
		if AddOnName(s.key) == name {
			return s, true
		}
	}
	return section{}, false
}

// all lists the section's fields, the two that most add-ons share first.
func (s section) all() []field {
	var fields []field
	if !s.versionless {
		fields = append(fields, field{key: "version", is: text})
	}
	if s.override {
		fields = append(fields, field{key: "s3Override", is: text})
	}
	return append(fields, s.fields...)
}

// keys returns the keys of all fields.
func (s section) keys() []string {
	var keys []string
	for _, f := range s.all() {
		keys = append(keys, f.key)
	}
	return keys
}

// field returns the field that the document calls key. kURL's test grid reads names in lower case, and its specs have some.
func (s section) field(key string) (field, bool) {
	for _, f := range s.all() {
		if f.key == key || strings.ToLower(f.key) == key {
			return f, true
		}
	}
	return field{}, false
}
