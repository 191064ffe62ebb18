{{/* The name of all objects. */}}
{{- define "ip-masq-agent.fullname" -}}
{{- .Values.fullnameOverride | default "ip-masq-agent" }}
{{- end }}

{{/* The one label of the selector. A selector cannot be changed, and this is the reference's. */}}
{{- define "ip-masq-agent.selector" -}}
k8s-app: {{ include "ip-masq-agent.fullname" . }}
{{- end }}

{{/* Labels of pods: nothing that changes with the chart alone, for that would restart every agent. */}}
{{- define "ip-masq-agent.podLabels" -}}
{{ include "ip-masq-agent.selector" . }}
app.kubernetes.io/name: ip-masq-agent
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: node-agent
app.kubernetes.io/part-of: ip-masq-agent
{{- end }}

{{/* Labels of all objects. */}}
{{- define "ip-masq-agent.labels" -}}
{{ include "ip-masq-agent.podLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Not empty if the agent may run iptables programs. */}}
{{- define "ip-masq-agent.mayRunIptables" -}}
{{- if ne .Values.backend "nftables" }}yes{{ end }}
{{- end }}

{{/* The image: by digest, else by the given tag, else the variant of this version that the backend needs. */}}
{{- define "ip-masq-agent.image" -}}
{{- $variant := include "ip-masq-agent.mayRunIptables" . | empty | ternary "" "-iptables" }}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default (print .Chart.AppVersion $variant)) }}
{{- end }}
{{- end }}

{{/* Flags that shape the policy, which the daemon and the tools take alike; only those that differ from the agent's defaults. */}}
{{- define "ip-masq-agent.policyArgs" -}}
{{- with .Values.masqChain }}
- --masq-chain={{ . }}
{{- end }}
{{- if .Values.nomasqAllReservedRanges }}
- --nomasq-all-reserved-ranges
{{- end }}
{{- if .Values.enableIPv6 }}
- --enable-ipv6
{{- end }}
{{- if not .Values.randomFully }}
- --random-fully=false
{{- end }}
{{- with .Values.toPorts }}
- --to-ports={{ . }}
{{- end }}
{{- end }}

{{/* Where the node itself asks for health. A node may take [::] for IPv6 alone (net.ipv6.bindv6only). */}}
{{- define "ip-masq-agent.loopback" -}}
{{- eq .Values.httpBindAddress "[::]" | ternary "::1" "127.0.0.1" }}
{{- end }}

{{/* Refuses flags that would belie the rest of the pod: its probes, its capabilities, its running on and on. */}}
{{- define "ip-masq-agent.checkExtraArgs" -}}
{{- $instead := dict
  "backend" "set the value backend, which also chooses image and capabilities"
  "http-bind-address" "set httpBindAddress and httpPort, which the probes ask"
  "once" "the agent would end and be started again without end" }}
{{- range $flag := .Values.extraArgs }}
{{- with get $instead (regexReplaceAll "^--?|=.*$" $flag "") }}
{{- fail (printf "extraArgs: %s does not go with this chart: %s" $flag .) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Only NET_ADMIN; iptables-legacy opens a raw socket, too. */}}
{{- define "ip-masq-agent.capabilities" -}}
drop:
  - ALL
add:
  - NET_ADMIN
  {{- if include "ip-masq-agent.mayRunIptables" . }}
  - NET_RAW
  {{- end }}
{{- end }}

{{- define "ip-masq-agent.volumeMounts" -}}
# A directory: a single file mounted by subPath would never be updated.
- name: config
  mountPath: /etc/config
  readOnly: true
{{- if include "ip-masq-agent.mayRunIptables" . }}
- name: xtables-lock
  mountPath: /run/xtables.lock
  readOnly: false
{{- end }}
{{- end }}

{{- define "ip-masq-agent.volumes" -}}
- name: config
  configMap:
    name: {{ include "ip-masq-agent.fullname" . }}
    optional: true
    items:
      - key: config
        path: ip-masq-agent
{{- if include "ip-masq-agent.mayRunIptables" . }}
- name: xtables-lock
  hostPath:
    path: /run/xtables.lock
    # Any other type would make a directory of a path that is missing.
    type: FileOrCreate
{{- end }}
{{- end }}
