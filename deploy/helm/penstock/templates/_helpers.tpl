{{- define "penstock.fullname" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "penstock.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "penstock.labels" -}}
{{ include "penstock.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "penstock.storeSecret" -}}
{{ .Values.cluster.existingSecret | default (printf "%s-store" (include "penstock.fullname" .)) }}
{{- end }}

{{- define "penstock.scheme" -}}
{{ if .Values.tls.existingSecret }}HTTPS{{ else }}HTTP{{ end }}
{{- end }}

{{- define "penstock.check" -}}
{{- if and (gt (int .Values.replicaCount) 1) (not .Values.cluster.enabled) }}
{{- fail "replicaCount above 1 needs cluster.enabled and a store (cluster.store or cluster.existingSecret)" }}
{{- end }}
{{- if and .Values.cluster.enabled (not .Values.cluster.store) (not .Values.cluster.existingSecret) }}
{{- fail "a cluster needs a store: set cluster.store, such as postgresql://user:password@host/database, or cluster.existingSecret" }}
{{- end }}
{{- end }}
