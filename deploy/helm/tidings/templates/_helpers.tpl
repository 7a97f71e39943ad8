{{- define "tidings.fullname" -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else }}{{ $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}
{{- end }}

{{- define "tidings.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tidings.labels" -}}
{{ include "tidings.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "tidings.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "tidings.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "tidings.fullname" .) }}{{ else }}{{ .Values.serviceAccount.name | default "default" }}{{ end }}
{{- end }}

{{- /* Maximum number of simultaneous processes of a service, including the additional one during a replacement. */ -}}
{{- define "tidings.mostReplicas" -}}
{{- $own := .service -}}
{{- if dig "autoscaling" "enabled" false $own }}{{ add $own.autoscaling.maxReplicas 1 }}
{{- else if dig "keda" "enabled" false $own }}{{ add $own.keda.maxReplicas 1 }}
{{- else }}{{ add ($own.replicas | default .defaults.replicas) 1 }}{{ end }}
{{- end }}

{{- /* Names of all services, as a JSON array, from the list that deploy/package and deploy/upgrade read too. */ -}}
{{- define "tidings.services" -}}
{{- $names := list -}}
{{- range .Files.Lines "files/services" -}}
{{- if and . (not (hasPrefix "#" .)) -}}{{- $names = append $names (splitList " " . | first) -}}{{- end -}}
{{- end -}}
{{- toJson $names -}}
{{- end }}

{{- /* Refuses values that would fail only after the installation. */ -}}
{{- define "tidings.validate" -}}
{{- $values := .Values -}}
{{- $_ := required "database.existingSecret: name the Secret with the URL of PostgreSQL (CloudNativePG makes <cluster>-app, key uri)" $values.database.existingSecret -}}
{{- $_ := required "masterKey.existingSecret: name the Secret with the master key; make one with `tidings master-key generate master.key` and `kubectl create secret generic tidings-master-key --from-file=master.key`" $values.masterKey.existingSecret -}}
{{- $_ := required "nats.existingSecret or nats.url: name the Secret with the URL of NATS, or the URL" (coalesce $values.nats.existingSecret $values.nats.url) -}}
{{- if and $values.database.ownerSecret (not $values.database.serviceRole) -}}
{{- fail "database.serviceRole: name the role of the services, to which the owner of database.ownerSecret grants their rights" -}}
{{- end -}}
{{- $sum := 0 -}}
{{- $known := include "tidings.services" . | fromJsonArray -}}
{{- range $name, $service := $values.services -}}
{{- if not (has $name $known) -}}
{{- fail (printf "services.%s: no such service; the services are %s" $name (join ", " $known)) -}}
{{- end -}}
{{- $most := include "tidings.mostReplicas" (dict "service" $service "defaults" $values.defaults) | int -}}
{{- $sum = add $sum (mul $most ($service.databaseConnections | default $values.defaults.databaseConnections | int)) -}}
{{- if dig "keda" "enabled" false $service -}}
{{- if lt (int $service.keda.minReplicas) 1 -}}
{{- fail (printf "services.%s.keda.minReplicas: must be at least 1; retries are timers in PostgreSQL, which no lag shows" $name) -}}
{{- end -}}
{{- if or (eq $values.keda.scaler "prometheus") (has $name (list "inbox" "webhooks")) -}}
{{- $_ := required (printf "keda.prometheusAddress: services.%s.keda needs the address of Prometheus" $name) $values.keda.prometheusAddress -}}
{{- else -}}
{{- $_ := required (printf "keda.natsMonitoringEndpoint: services.%s.keda needs the monitoring endpoint of the headless Service of NATS, such as nats-headless.nats:8222" $name) $values.keda.natsMonitoringEndpoint -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $room := sub (int $values.database.maxConnections) (int $values.database.reserved) -}}
{{- if gt (int $sum) (int $room) -}}
{{- fail (printf "the pools of all services may open %d connections, and database.maxConnections %d less database.reserved %d leaves %d: raise max_connections of PostgreSQL and database.maxConnections, or lower defaults.databaseConnections or the replicas" (int $sum) (int $values.database.maxConnections) (int $values.database.reserved) (int $room)) -}}
{{- end -}}
{{- end }}

{{- define "tidings.podSpec" -}}
enableServiceLinks: false
automountServiceAccountToken: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext: {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- end }}

{{- /* `owner` is true for the migration. */ -}}
{{- define "tidings.env" -}}
{{- $values := .root.Values -}}
{{- $owner := and .owner $values.database.ownerSecret -}}
- name: TIDINGS_CONFIG
  value: /etc/tidings/tidings.toml
- name: TIDINGS_DATABASE__URL
  valueFrom:
    secretKeyRef:
      name: {{ ternary $values.database.ownerSecret $values.database.existingSecret (not (empty $owner)) }}
      key: {{ ternary $values.database.ownerKey $values.database.key (not (empty $owner)) }}
- name: TIDINGS_DATABASE__MAX_CONNECTIONS
  value: {{ .connections | quote }}
- name: TIDINGS_NATS__URL
{{- if $values.nats.existingSecret }}
  valueFrom: {secretKeyRef: {name: {{ $values.nats.existingSecret }}, key: {{ $values.nats.key }}}}
{{- else }}
  value: {{ $values.nats.url | quote }}
{{- end }}
{{- if $values.nats.credentialsSecret }}
- {name: TIDINGS_NATS__CREDENTIALS_FILE, value: /secrets/nats-credentials/nats.creds}
{{- end }}
{{- if $values.nats.caSecret }}
- {name: TIDINGS_NATS__CA_FILE, value: /secrets/nats-ca/ca.crt}
{{- end }}
{{- if $values.nats.clientCertificateSecret }}
- {name: TIDINGS_NATS__CERT_FILE, value: /secrets/nats-client/tls.crt}
- {name: TIDINGS_NATS__KEY_FILE, value: /secrets/nats-client/tls.key}
{{- end }}
- {name: TIDINGS_SECURITY__MASTER_KEY_FILE, value: /secrets/master-key/master.key}
{{- if $values.masterKey.previousSecret }}
- {name: TIDINGS_SECURITY__PREVIOUS_MASTER_KEY_FILE, value: /secrets/previous-master-key/master.key}
{{- end }}
- {name: TIDINGS_METRICS__LISTEN, value: "[::]:9090"}
- {name: TIDINGS_GATEWAY__LISTEN, value: "[::]:8080"}
- {name: TIDINGS_CONSOLE__LISTEN, value: "[::]:8090"}
# Longer than the time for which nodes may still send new connections to a stopping pod.
- {name: TIDINGS_GATEWAY__DRAIN, value: 8s}
{{- with $values.defaults.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "tidings.volumeMounts" -}}
- {name: config, mountPath: /etc/tidings, readOnly: true}
- {name: master-key, mountPath: /secrets/master-key, readOnly: true}
{{- if .Values.masterKey.previousSecret }}
- {name: previous-master-key, mountPath: /secrets/previous-master-key, readOnly: true}
{{- end }}
{{- if .Values.nats.credentialsSecret }}
- {name: nats-credentials, mountPath: /secrets/nats-credentials, readOnly: true}
{{- end }}
{{- if .Values.nats.caSecret }}
- {name: nats-ca, mountPath: /secrets/nats-ca, readOnly: true}
{{- end }}
{{- if .Values.nats.clientCertificateSecret }}
- {name: nats-client, mountPath: /secrets/nats-client, readOnly: true}
{{- end }}
{{- end }}

{{- /* Kubernetes gives these files to root and the fsGroup with mode 0440, which Tidings accepts. `config` names the ConfigMap. */ -}}
{{- define "tidings.volumes" -}}
{{- $values := .root.Values -}}
- name: config
  configMap: {name: {{ .config }}}
- name: master-key
  secret: {secretName: {{ $values.masterKey.existingSecret }}, defaultMode: 0440, items: [{key: {{ $values.masterKey.key }}, path: master.key}]}
{{- if $values.masterKey.previousSecret }}
- name: previous-master-key
  secret: {secretName: {{ $values.masterKey.previousSecret }}, defaultMode: 0440, items: [{key: {{ $values.masterKey.previousKey }}, path: master.key}]}
{{- end }}
{{- if $values.nats.credentialsSecret }}
- name: nats-credentials
  secret: {secretName: {{ $values.nats.credentialsSecret }}, defaultMode: 0440, items: [{key: {{ $values.nats.credentialsKey }}, path: nats.creds}]}
{{- end }}
{{- if $values.nats.caSecret }}
- name: nats-ca
  secret: {secretName: {{ $values.nats.caSecret }}, defaultMode: 0440, items: [{key: {{ $values.nats.caKey }}, path: ca.crt}]}
{{- end }}
{{- if $values.nats.clientCertificateSecret }}
- name: nats-client
  secret: {secretName: {{ $values.nats.clientCertificateSecret }}, defaultMode: 0440}
{{- end }}
{{- end }}
