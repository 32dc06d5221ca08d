package batch

import "fmt"

// Program is the program that pods run. It is part of their inputs: with another one, pieces run again.
type Program struct {
	Sealift string `json:"sealift"` // version
	Image   string `json:"image"`
}

// Check refuses the program of a pod if it differs from the coordinator's. version is the pod's.
func (p Program) Check(version string) error {
	if version != p.Sealift {
		return fmt.Errorf("the image %s has sealift %s, and sealift %s made the Job; make an image of the same sealift", p.Image, version, p.Sealift)
	}
	return nil
}
