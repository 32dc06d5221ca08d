package ocm

// ConfigType is a type of configuration objects.
type ConfigType struct {
	Group    string `json:"group"`
	Resource string `json:"resource"`
}

// ConfigObject names a configuration object of a known type.
type ConfigObject struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// AddOnConfig names a configuration object.
type AddOnConfig struct {
	ConfigType   `json:",inline"`
	ConfigObject `json:",inline"`
}

// ConfigHash is a configuration object at one content. The hash is empty while the object does not exist.
type ConfigHash struct {
	ConfigObject `json:",inline"`
	SpecHash     string `json:"specHash"`
}

// ConfigReference is the configuration that an add-on has on one cluster.
type ConfigReference struct {
	ConfigType             `json:",inline"`
	LastObservedGeneration int64       `json:"lastObservedGeneration"`
	DesiredConfig          *ConfigHash `json:"desiredConfig,omitempty"`
	LastAppliedConfig      *ConfigHash `json:"lastAppliedConfig,omitempty"`
}

// InstallConfigReference is the configuration that a placement has.
type InstallConfigReference struct {
	ConfigType          `json:",inline"`
	DesiredConfig       *ConfigHash `json:"desiredConfig,omitempty"`
	LastAppliedConfig   *ConfigHash `json:"lastAppliedConfig,omitempty"`
	LastKnownGoodConfig *ConfigHash `json:"lastKnownGoodConfig,omitempty"`
}

// DefaultConfigReference is the configuration that an add-on has without a placement.
type DefaultConfigReference struct {
	ConfigType    `json:",inline"`
	DesiredConfig *ConfigHash `json:"desiredConfig,omitempty"`
}
