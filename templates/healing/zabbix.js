// Zabbix: script of a media type of type Webhook. Its parameters:
//   url          http://127.0.0.1:8004/v1/default/health/generic
//   token        an intake token
//   event_id     {EVENT.ID}
//   event_value  {EVENT.VALUE}
//   physical_id  {EVENT.TAGS.instance_id}
//   reason       {EVENT.NAME}
// Messages for problem and recovery have to be enabled. Zabbix repeats a delivery that throws.
var params = JSON.parse(value);
var request = new HttpRequest();
request.addHeader('Content-Type: application/json');
request.addHeader('Authorization: Bearer ' + params.token);
var answer = request.post(params.url, JSON.stringify({
    reports: [{
        key: params.event_id,
        status: params.event_value === '0' ? 'healthy' : 'unhealthy',
        physical_id: params.physical_id,
        reason: params.reason
    }]
}));
var code = request.getStatus();
if (code < 200 || code > 299) {
    throw 'heatlite answered ' + code + ': ' + answer;
}
return answer;
